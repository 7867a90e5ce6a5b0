#include "common/engine/cpu_engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {

namespace {

bool WantsHead(const EngineRun& run) {
  return !run.walks.empty() || !run.rankings.empty() || !run.logits.empty();
}

}  // namespace

// Who looks between layers: states that are asked for are copied, exits guess.
class CpuEngine::RunObserver final : public LayerObserver {
 public:
  RunObserver(std::span<const HiddenAfterLayer> hidden, ExitHeads* exits)
      : hidden_(hidden), exits_(exits) {}

  void AfterLayer(uint32_t layer, LayerView& view) override {
    for (const HiddenAfterLayer& asked : hidden_) {
      if (asked.layer != layer) continue;
      for (size_t i = 0; i < view.rows().size(); ++i) {
        const std::span<const float> row = view.hidden(i);
        std::ranges::copy(row, asked.out.begin() + static_cast<ptrdiff_t>(i * row.size()));
      }
    }
    if (exits_ != nullptr) exits_->AfterLayer(layer, view);
  }

 private:
  const std::span<const HiddenAfterLayer> hidden_;
  ExitHeads* const exits_;  // null: none are attached
};

// --- making one ---

absl::StatusOr<std::unique_ptr<CpuEngine>> LoadCpuEngine(const ModelFile& model,
                                                         const std::string& path,
                                                         const EngineOptions& options,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(model, path));
  // Before a model is loaded.
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  spec.LimitContext(complete.context_length);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(model, spec, path, pool, progress));
  const uint64_t content_hash = weights->content_hash();
  absl::StatusOr<std::unique_ptr<CpuEngine>> engine =
      CpuEngine::Create(spec, std::move(weights), content_hash, options, kernels, pool);
  if (!engine.ok()) return Annotate(engine.status(), path);
  return engine;
}

absl::StatusOr<std::unique_ptr<CpuEngine>> CpuEngine::Create(
    const ModelSpec& spec, std::shared_ptr<WeightStore> weights, uint64_t content_hash,
    const EngineOptions& options, const Kernels& kernels, ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  EngineInfo info = {.model_name = Harmless(spec.name),
                     .model_file = Harmless(spec.file),
                     .numerics_id = NumericsId::Of(spec, content_hash, "cpu", "f16"),
                     .content_hash = content_hash,
                     .vocabulary_size = spec.vocabulary_size,
                     .context_length = complete.context_length,
                     .sequence_count_max = complete.sequence_count_max,
                     .node_count_max = complete.node_count_max,
                     .row_count_max = complete.row_count_max,
                     .encoder_length_max = complete.encoder_length_max,
                     .batch_invariant = true,
                     .on_host_processor = true,
                     .forks_share_pages = true};
  std::unique_ptr<CpuEngine> engine(
      new CpuEngine(spec, std::move(weights), std::move(info), options.projection, kernels, pool));
  OUTRIDER_RETURN_IF_ERROR(engine->TakeMemory(complete.kv_bytes));
  return engine;
}

namespace {

// Of what grows with the context: the one that the free memory has room for, in whole pages.
absl::Status NoRoomFor(const std::string& what, const EngineInfo& info, uint64_t bytes) {
  const auto free = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * PageBuffer::PageSize();
  const double share = std::min(1.0, static_cast<double>(free) / static_cast<double>(bytes));
  const auto fits = static_cast<uint32_t>(share * info.context_length) / kPageTokens * kPageTokens;
  return ResourceExhausted(what, info.context_length, " tokens take ", HumanBytes(bytes),
                           ", and the machine has ", HumanBytes(free), " free; a --context of ",
                           std::max(fits, kPageTokens), " fits");
}

absl::Status NoRoomForPages(const EngineInfo& info, uint64_t bytes) {
  const char* const contexts = info.sequence_count_max == 1 ? " context of " : " contexts of ";
  return NoRoomFor(Concat("keys and values of ", info.sequence_count_max, contexts), info, bytes);
}

absl::Status NoRoomForRuns(const EngineInfo& info, uint64_t bytes) {
  return NoRoomFor(
      Concat("lists of the keys that ", info.row_count_max, " rows see in a context of "), info,
      bytes);
}

}  // namespace

CpuEngine::CpuEngine(const ModelSpec& spec, std::shared_ptr<WeightStore> weights, EngineInfo info,
                     Projection projection, const Kernels& kernels, ThreadPool& pool)
    : spec_(spec),
      weights_(std::move(weights)),
      info_(std::move(info)),
      kernels_(kernels),
      pool_(pool),
      projection_(projection) {}

absl::Status CpuEngine::TakeMemory(uint64_t kv_bytes) {
  const uint32_t rows = info_.row_count_max;
  const uint32_t logit_rows = LogitRows(rows, info_.node_count_max);
  const SequenceLimits limits = {.length_max = info_.context_length,
                                 .node_count_max = info_.node_count_max,
                                 .row_count_max = rows};
  MemoryLayout layout(spec_, info_.encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> page_counts,
                            DividePages(layout, limits, info_.sequence_count_max, kv_bytes));
  uint64_t page_bytes = 0;
  for (uint32_t i = 0; i < layout.group_count(); ++i) {
    page_bytes += page_counts[i] * layout.page_bytes(i);
  }
  absl::StatusOr<std::unique_ptr<PageMemory>> pages =
      PageMemory::Create(std::move(layout), page_counts, info_.sequence_count_max);
  if (absl::IsResourceExhausted(pages.status())) return NoRoomForPages(info_, page_bytes);
  OUTRIDER_ASSIGN_OR_RETURN(pages_, std::move(pages));
  OUTRIDER_ASSIGN_OR_RETURN(transformer_, Transformer::Create(spec_, *weights_, pages_->layout(),
                                                              kernels_, pool_, rows, logit_rows));
  absl::StatusOr<Batch> batch = Batch::Create(pages_->layout(), limits);
  if (absl::IsResourceExhausted(batch.status())) {
    return NoRoomForRuns(info_, Batch::RunBytes(pages_->layout(), limits));
  }
  OUTRIDER_RETURN_IF_ERROR(batch.status());
  batch_ = std::make_unique<Batch>(*std::move(batch));
  answers_ = std::make_unique<Answers>(info_, logit_rows, pool_);
  for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
    sequences_.Add(std::make_unique<Sequence>(*pages_, limits));
  }
  return absl::OkStatus();
}

// --- sequences ---

CpuEngine::Sequence& CpuEngine::At(SequenceId id) const {
  Sequence* const sequence = sequences_.Find(id);
  OUTRIDER_CHECK(sequence != nullptr, "a sequence is used between Open() and Close()");
  return *sequence;
}

absl::StatusOr<SequenceId> CpuEngine::Open() {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Open());
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> CpuEngine::Fork(SequenceId id, uint32_t length) {
  Sequence& sequence = At(id);
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Open());
  const absl::Status status = fork->memory.ForkFrom(sequence.memory, length);
  if (!status.ok()) {
    fork->id = 0;
    return status;
  }
  return SequenceId{fork->id};
}

void CpuEngine::Close(SequenceId id) {
  Sequence& sequence = At(id);
  sequence.id = 0;
  sequence.memory.Clear();
}

uint32_t CpuEngine::Length(SequenceId id) const {
  return At(id).memory.length();
}

absl::Status CpuEngine::Reserve(SequenceId id, uint32_t cell_count, uint32_t node_count) {
  return At(id).memory.Reserve(cell_count, node_count);
}

absl::Status CpuEngine::Hear(SequenceId id, std::span<const float> states) {
  SequenceMemory& memory = At(id).memory;
  OUTRIDER_RETURN_IF_ERROR(memory.ReserveEncoder(CountEncoderRows(states, spec_, info_)));
  const absl::Status status = transformer_->WriteEncoder(states, memory);
  if (!status.ok()) memory.DropEncoder();
  return status;
}

void CpuEngine::Commit(SequenceId id, uint32_t chain_count, std::span<const uint32_t> path) {
  At(id).memory.Commit(chain_count, path);
}

void CpuEngine::DropNodes(SequenceId id) {
  At(id).memory.DropNodes();
}

uint32_t CpuEngine::Truncate(SequenceId id, uint32_t length) {
  return At(id).memory.Truncate(length);
}

// --- runs ---

absl::Status CpuEngine::Run(EngineRun& run) {
  ++run_count_;
  weights_->BeginRun(WantsHead(run));
  batch_->Clear();
  for (const RunPart& part : run.parts) AddPart(part);
  const absl::Status status = Compute(run);
  if (!status.ok()) {
    for (const RunPart& part : run.parts) {
      SequenceMemory& memory = At(part.sequence).memory;
      memory.Truncate(memory.length());
    }
  }
  return status;
}

absl::Status CpuEngine::Compute(EngineRun& run) {
  OUTRIDER_RETURN_IF_ERROR(Forward(run));
  for (const HiddenAfterLayer& asked : run.hidden) {
    if (asked.layer + 1 < spec_.layer_count()) continue;
    for (uint32_t row = 0; row < batch_->row_count(); ++row) {
      std::ranges::copy(transformer_->hidden(row),
                        asked.out.begin() + ptrdiff_t{row} * spec_.embedding_length);
    }
  }
  return Answer(run);
}

// The head is leased once, for however many bands there are, and not where nobody asks for logits.
// How long that takes is no part of what the ways to ask it are compared by.
absl::Status CpuEngine::Answer(EngineRun& run) {
  if (!WantsHead(run)) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const Lease<HeadWeights> head, weights_->Acquire(HeadKey{}));
  const MonotonicTime begin = RealClock().Now();
  uint32_t walked_rows = 0;
  for (const TreeWalk& walk : run.walks) {
    walked_rows += 1 + static_cast<uint32_t>(walk.nodes.size());
  }
  // A row for each walk is the same either way.
  const bool has_trees = walked_rows > run.walks.size();
  const bool by_path = has_trees && projection_.NextIsByPath(walked_rows);
  answers_->Begin(run, transformer_->rows(), by_path);
  for (;;) {
    const std::span<const uint32_t> rows = answers_->NextBand();
    if (rows.empty()) break;
    answers_->Answer(transformer_->Project(rows, *head));
  }
  if (has_trees) projection_.Took(RealClock().Now() - begin);
  if (exits_ != nullptr && !run.walks.empty()) exits_->Conclude(run.walks);
  return absl::OkStatus();
}

void CpuEngine::AddPart(const RunPart& part) {
  Sequence& sequence = At(part.sequence);
  OUTRIDER_CHECK(sequence.last_run != run_count_, "a run has one part of a sequence");
  CheckRows(part, spec_);
  sequence.last_run = run_count_;
  const uint32_t first_row = batch_->row_count();
  if (!part.chain.empty()) batch_->AddChain(sequence.memory, part.chain);
  for (const EngineNode& node : part.nodes) {
    batch_->AddNode(sequence.memory, node.token, node.parent, node.slot);
  }
  for (uint32_t i = 0; i < part.positions.size(); ++i) {
    batch_->SetPosition(first_row + i, part.positions[i]);
  }
  for (uint32_t i = 0; i < part.embeddings.size(); ++i) {
    batch_->SetEmbedding(first_row + i, part.embeddings[i]);
  }
}

absl::Status CpuEngine::Forward(const EngineRun& run) {
  ExitHeads* const exits = run.walks.empty() ? nullptr : exits_.get();
  OUTRIDER_CHECK(run.hidden.empty() || std::ranges::all_of(run.walks,
                                                           [](const TreeWalk& walk) {
                                                             return walk.pruning != Pruning::kOn;
                                                           }),
                 "hidden states are asked of runs that keep their rows");
  if (exits != nullptr) exits->BeginRun(run.walks);
  if (exits == nullptr && run.hidden.empty()) return transformer_->Forward(*batch_, nullptr);
  RunObserver observer(run.hidden, exits);
  return transformer_->Forward(*batch_, &observer);
}

// --- exits ---

absl::Status CpuEngine::AttachExits(const TrainedExits& trained, const std::string& path,
                                    const ExitOptions& options, ExitSink& sink) {
  OUTRIDER_ASSIGN_OR_RETURN(Lease<HeadWeights> head, weights_->Acquire(HeadKey{}));
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<ExitHeads> exits,
      ExitHeads::Create(
          trained, path,
          {.spec = spec_, .info = info_, .head = &*head, .kernels = kernels_, .pool = pool_},
          options, sink));
  DetachExits();
  exits_head_.emplace(std::move(head));
  exits_ = std::move(exits);
  return absl::OkStatus();
}

void CpuEngine::DetachExits() {
  exits_.reset();
  exits_head_.reset();
}

void CpuEngine::SwitchExit(uint32_t exit, bool on) {
  OUTRIDER_CHECK(exits_ != nullptr, "exits are attached before they are switched");
  exits_->Switch(exit, on);
}

}  // namespace outrider
