#include "common/engine/engine_target.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

TargetInfo Describe(const EngineInfo& engine, const Ledger& ledger) {
  TargetInfo info = {.model_name = engine.model_name,
                     .numerics_id = engine.numerics_id,
                     .vocabulary_size = engine.vocabulary_size,
                     .context_length = engine.context_length,
                     .node_count_max = engine.node_count_max,
                     .sequence_count_max = engine.sequence_count_max,
                     .row_count_max = engine.row_count_max,
                     .batch_invariant = engine.batch_invariant,
                     .on_host_processor = engine.on_host_processor,
                     .forks_share_pages = engine.forks_share_pages};
  for (uint32_t group = 0; group < ledger.group_count(); ++group) {
    info.page_groups.push_back(ledger.group(group));
    // What else layers keep (a window, a state) is there for the end of a text alone.
    info.forks_share_pages &= ledger.group(group).keeps_all();
  }
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineTarget>> EngineTarget::Create(std::unique_ptr<Engine> engine) {
  const EngineInfo& info = engine->info();
  if (info.row_count_max <= info.node_count_max) {
    return InvalidArgument("a pass of ", info.node_count_max,
                           " nodes and their root does not fit into ", info.row_count_max,
                           " rows; allow fewer nodes or more rows");
  }
  if (info.encoder_length_max > 0) {
    return Unimplemented(info.model_name,
                         " hears an encoder, and no target can be told what it says");
  }
  return std::unique_ptr<EngineTarget>(new EngineTarget(std::move(engine)));
}

EngineTarget::EngineTarget(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)),
      info_(Describe(engine_->info(), engine_->ledger())),
      rules_(info_) {
  for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
    sequences_.Add(std::make_unique<Sequence>(info_));
  }
  works_.reserve(info_.sequence_count_max);
  pieces_.reserve(info_.sequence_count_max);
  parts_.reserve(info_.sequence_count_max);
  walks_.reserve(info_.sequence_count_max);
  walk_passes_.reserve(info_.sequence_count_max);
  nodes_.reserve(info_.row_count_max);
}

// --- sequences ---

absl::StatusOr<EngineTarget::Sequence*> EngineTarget::Find(SequenceId id) const {
  Sequence* const sequence = sequences_.Find(id);
  if (sequence != nullptr) return sequence;
  return NotFound("sequence ", static_cast<uint64_t>(id), " was never created, or is closed");
}

absl::StatusOr<SequenceId> EngineTarget::CreateSequence() {
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId cells, engine_->Open());
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Open());
  sequence->cells = cells;
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> EngineTarget::Fork(SequenceId id, uint32_t length) {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, Find(id));
  if (length > sequence->tokens.size()) {
    return InvalidArgument("a sequence of ", sequence->tokens.size(), " tokens has no first ",
                           length);
  }
  const uint32_t wanted = length > 0 ? length - 1 : 0;
  const uint32_t cell_count = std::min(engine_->Length(sequence->cells), wanted);
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId cells, engine_->Fork(sequence->cells, cell_count));
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Open());
  fork->cells = cells;
  fork->tokens.assign(sequence->tokens.begin(), sequence->tokens.begin() + length);
  return SequenceId{fork->id};
}

absl::Status EngineTarget::Close(SequenceId id) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, Find(id));
  engine_->Close(sequence->cells);
  sequence->id = 0;
  sequence->tokens.clear();
  sequence->has_pass = false;
  sequence->chain_count = 0;
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> EngineTarget::Truncate(SequenceId id, uint32_t length) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, Find(id));
  OUTRIDER_RETURN_IF_ERROR(TargetRules::Truncate(*sequence, length));
  CommitRead(*sequence);
  const uint32_t wanted = length > 0 ? length - 1 : 0;
  return engine_->Truncate(sequence->cells, std::min(engine_->Length(sequence->cells), wanted));
}

absl::StatusOr<uint32_t> EngineTarget::Length(SequenceId id) const {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, Find(id));
  return static_cast<uint32_t>(sequence->tokens.size());
}

uint32_t EngineTarget::Uncomputed(const Sequence& sequence) const {
  return static_cast<uint32_t>(sequence.tokens.size()) - engine_->Length(sequence.cells);
}

// There will be no outcome of the last pass: of its chain all but the root is worth keeping.
void EngineTarget::CommitRead(Sequence& sequence) {
  if (sequence.chain_count > 1) engine_->Commit(sequence.cells, sequence.chain_count - 1, {});
  sequence.chain_count = 0;
}

// --- what is asked ---

void EngineTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                       std::span<PassResult> results) {
  OUTRIDER_CHECK(passes.size() == results.size(), "every pass has a result");
  rules_.BeginCall();
  works_.clear();
  for (Reading& reading : readings) reading.status = Admit(reading);
  for (size_t i = 0; i < passes.size(); ++i) {
    results[i].status = Admit(passes[i], results[i], i);
  }
  for (const Work& work : works_) Schedule(work);
  static_cast<void>(RunPieces());  // who failed has been told
}

absl::Status EngineTarget::Admit(Reading& reading) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, Find(reading.sequence));
  OUTRIDER_RETURN_IF_ERROR(rules_.CheckReading(reading, *sequence));
  if (reading.tokens.empty()) return absl::OkStatus();
  const size_t before = sequence->tokens.size();
  const size_t cells = before + reading.tokens.size() - 1 - engine_->Length(sequence->cells);
  OUTRIDER_RETURN_IF_ERROR(engine_->Reserve(sequence->cells, static_cast<uint32_t>(cells), 0));
  CommitRead(*sequence);
  rules_.AdmitReading(reading, *sequence);
  sequence->work = works_.size();
  works_.push_back({.sequence = sequence,
                    .reading = &reading,
                    .pass = nullptr,
                    .result = nullptr,
                    .pass_index = 0,
                    .length_before = before});
  return absl::OkStatus();
}

// Nothing is wrong with the pass, and there is room for its rows and for what may be committed.
absl::Status EngineTarget::Admit(const Pass& pass, PassResult& result, size_t index) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, Find(pass.sequence));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t depth, rules_.CheckPass(pass, *sequence));
  OUTRIDER_RETURN_IF_ERROR(engine_->Reserve(sequence->cells, Uncomputed(*sequence) + depth,
                                            static_cast<uint32_t>(pass.nodes.size())));
  CommitRead(*sequence);
  rules_.AdmitPass(*sequence);
  if (!rules_.ReadsInThisCall(*sequence)) {
    sequence->work = works_.size();
    works_.push_back({.sequence = sequence,
                      .reading = nullptr,
                      .pass = nullptr,
                      .result = nullptr,
                      .pass_index = 0,
                      .length_before = sequence->tokens.size()});
  }
  Work& work = works_[sequence->work];
  work.pass = &pass;
  work.result = &result;
  work.pass_index = index;
  return absl::OkStatus();
}

// --- runs ---

// What does not fit into the run that is being put together goes into the next ones.
void EngineTarget::Schedule(const Work& work) {
  const bool has_pass = work.pass != nullptr;
  // These rows stand together: the root and what hangs below it.
  const auto together = static_cast<uint32_t>(has_pass ? 1 + work.pass->nodes.size() : 0);
  uint32_t readable = Uncomputed(*work.sequence) - 1;
  while (readable + together > info_.row_count_max - row_count_) {
    const uint32_t count = std::min(readable, info_.row_count_max - row_count_);
    if (count > 0) AddPiece(work, count, /*has_pass=*/false);
    const absl::Status status = RunPieces();
    if (count == 0) continue;
    if (!status.ok()) return;
    readable -= count;
  }
  if (readable + together > 0) AddPiece(work, readable + (has_pass ? 1 : 0), has_pass);
}

void EngineTarget::AddPiece(const Work& work, uint32_t chain_count, bool has_pass) {
  const Sequence& sequence = *work.sequence;
  const size_t first_node = nodes_.size();
  if (has_pass) {
    for (const DraftedNode& node : work.pass->nodes) {
      const auto slot = static_cast<uint32_t>(nodes_.size() - first_node);
      const bool below_root = node.parent == DraftedNode::kRoot;
      nodes_.push_back({node.token, below_root ? EngineNode::kChain : node.parent, slot});
    }
    walks_.push_back({.root_row = row_count_ + chain_count - 1,
                      .nodes = work.pass->nodes,
                      .chooser = work.pass->chooser,
                      .history = work.pass->history,
                      .candidates = work.pass->candidates,
                      .is_guessed = work.pass->is_guessed && sink_ != nullptr,
                      .pruning = work.pass->pruning});
    walk_passes_.push_back(work.pass_index);
  }
  const size_t computed = engine_->Length(sequence.cells);
  parts_.push_back({.sequence = sequence.cells,
                    .chain = std::span(sequence.tokens).subspan(computed, chain_count),
                    .nodes = std::span(nodes_).subspan(first_node)});
  pieces_.push_back({&work, chain_count, has_pass});
  row_count_ += parts_.back().row_count();
}

absl::Status EngineTarget::RunPieces() {
  if (pieces_.empty()) return absl::OkStatus();
  EngineRun run = {.parts = parts_, .walks = walks_};
  const absl::Status status = engine_->Run(run);
  const TreeWalk* walk = walks_.data();
  for (const Piece& piece : pieces_) {
    if (!status.ok()) {
      Undo(*piece.work, status);
    } else {
      Conclude(piece, piece.has_pass ? walk++ : nullptr);
    }
  }
  row_count_ = 0;
  pieces_.clear();
  parts_.clear();
  nodes_.clear();
  walks_.clear();
  walk_passes_.clear();
  return status;
}

// `walk` is null for a piece of a chain.
void EngineTarget::Conclude(const Piece& piece, const TreeWalk* walk) {
  Sequence& sequence = *piece.work->sequence;
  if (walk == nullptr) return engine_->Commit(sequence.cells, piece.chain_count, {});
  sequence.chain_count = piece.chain_count;
  PassResult& result = *piece.work->result;
  result.status = walk->status;
  if (!walk->status.ok()) return;
  result.outcome = walk->outcome;
  result.pruned = walk->pruned;
  TargetRules::Keep(*piece.work->pass, walk->outcome, sequence);
}

// The run failed: the sequence has the tokens it had before the call.
void EngineTarget::Undo(const Work& work, const absl::Status& status) {
  Sequence& sequence = *work.sequence;
  if (work.pass != nullptr) work.result->status = status;
  if (work.reading != nullptr) work.reading->status = status;
  sequence.tokens.resize(work.length_before);
  const auto length = static_cast<uint32_t>(work.length_before);
  const uint32_t computed = engine_->Length(sequence.cells);
  engine_->Truncate(sequence.cells, std::min(computed, length > 0 ? length - 1 : 0));
}

absl::Status EngineTarget::Commit(SequenceId id, const Outcome& outcome) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, Find(id));
  OUTRIDER_ASSIGN_OR_RETURN(const std::span<const uint32_t> path,
                            rules_.Commit(*sequence, outcome));
  engine_->Commit(sequence->cells, sequence->chain_count, path);
  engine_->DropNodes(sequence->cells);
  sequence->chain_count = 0;
  return absl::OkStatus();
}

// --- exits ---

absl::Status EngineTarget::AttachExits(const TrainedExits& exits, const std::string& path,
                                       const ExitOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(engine_->AttachExits(exits, path, options, *this));
  info_.exit_depths.clear();
  for (const TrainedExit& exit : exits.exits) {
    info_.exit_depths.push_back(1000 * (exit.layer + 1) / exits.target.layer_count);
  }
  return absl::OkStatus();
}

void EngineTarget::OnGuess(const ExitGuess& guess) {
  ExitGuess of_pass = guess;
  of_pass.walk = walk_passes_[guess.walk];
  sink_->OnGuess(of_pass);
}

}  // namespace outrider
