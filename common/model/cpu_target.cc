#include "common/model/cpu_target.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/model_file.h"

namespace outrider {
namespace {

// Rows whose logits are kept at once: the largest pass, and a good band of small ones.
constexpr uint32_t kLogitRows = 32;

uint64_t PagesFor(uint64_t positions) {
  return (positions + kChunk - 1) / kChunk;
}

absl::Status CheckOptions(const ModelSpec& spec, const CpuTargetOptions& options) {
  return CheckLimits(spec, {.context_length = options.context_length,
                            .sequence_count_max = options.sequence_count_max,
                            .node_count_max = options.node_count_max,
                            .row_count_max = options.row_count_max});
}

absl::StatusOr<uint32_t> CountPages(const KvPageLayout& layout, const CpuTargetOptions& options,
                                    uint32_t context_length) {
  const uint64_t scratch = PagesFor(options.node_count_max);
  const uint64_t least = 1 + scratch;
  const uint64_t pages = options.kv_bytes > 0
                             ? options.kv_bytes / layout.page_bytes()
                             : options.sequence_count_max * (PagesFor(context_length) + scratch);
  if (pages < least) {
    return InvalidArgument("a KV cache of ", options.kv_bytes, " bytes is too small; the least is ",
                           least * layout.page_bytes());
  }
  return static_cast<uint32_t>(std::min<uint64_t>(pages, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

CpuTarget::Sequence::Sequence(KvCache& cache, const TargetInfo& info)
    : TargetSequence(info), kv(cache, info.context_length, info.node_count_max) {}

absl::StatusOr<std::unique_ptr<CpuTarget>> CpuTarget::Load(const ModelFile& model,
                                                           const std::string& path,
                                                           const CpuTargetOptions& options,
                                                           const Kernels& kernels, ThreadPool& pool,
                                                           const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
  OUTRIDER_RETURN_IF_ERROR(CheckOptions(spec, options));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(model, spec, path, pool, progress));
  const uint64_t content_hash = weights->content_hash();
  return Create(spec, std::move(weights), content_hash, options, kernels, pool);
}

absl::StatusOr<std::unique_ptr<CpuTarget>> CpuTarget::Create(
    const ModelSpec& spec, std::unique_ptr<WeightStore> weights, uint64_t content_hash,
    const CpuTargetOptions& options, const Kernels& kernels, ThreadPool& pool) {
  OUTRIDER_RETURN_IF_ERROR(CheckOptions(spec, options));
  const uint32_t context_length =
      options.context_length > 0 ? options.context_length : spec.context_length;
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t page_count,
                            CountPages(KvPageLayout(spec), options, context_length));
  TargetInfo info = {.model_name = spec.name,
                     .numerics_id = NumericsId::Of(spec, content_hash, "cpu", "f16"),
                     .vocabulary_size = spec.vocabulary_size,
                     .context_length = context_length,
                     .node_count_max = options.node_count_max,
                     .sequence_count_max = options.sequence_count_max};
  std::unique_ptr<CpuTarget> target(
      new CpuTarget(spec, std::move(weights), content_hash, std::move(info), pool));

  OUTRIDER_ASSIGN_OR_RETURN(target->cache_, KvCache::Create(target->spec_, page_count));
  const uint32_t logit_rows = std::max(kLogitRows, options.node_count_max + 1);
  OUTRIDER_ASSIGN_OR_RETURN(
      target->transformer_,
      Transformer::Create(target->spec_, *target->weights_, target->cache_->layout(), kernels, pool,
                          options.row_count_max, logit_rows));
  OUTRIDER_ASSIGN_OR_RETURN(
      Batch batch, Batch::Create(options.row_count_max, context_length, target->spec_.window));
  target->batch_ = std::make_unique<Batch>(std::move(batch));
  target->admitted_.reserve(options.row_count_max);
  target->running_.reserve(options.row_count_max);
  target->logit_rows_.reserve(logit_rows);
  for (uint32_t worker = 0; worker < pool.thread_count(); ++worker) {
    target->scratch_.emplace_back(static_cast<int32_t>(spec.vocabulary_size));
    target->paths_.emplace_back().reserve(options.node_count_max);
  }
  for (uint32_t i = 0; i < options.sequence_count_max; ++i) {
    target->sequences_.Add(std::make_unique<Sequence>(*target->cache_, target->info_));
  }
  return target;
}

CpuTarget::CpuTarget(const ModelSpec& spec, std::unique_ptr<WeightStore> weights,
                     uint64_t content_hash, TargetInfo info, ThreadPool& pool)
    : spec_(spec),
      weights_(std::move(weights)),
      content_hash_(content_hash),
      info_(std::move(info)),
      rules_(info_),
      pool_(pool) {}

// --- sequences ---

absl::StatusOr<SequenceId> CpuTarget::CreateSequence() {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Create());
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> CpuTarget::Fork(SequenceId id) {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Create());
  fork->tokens.assign(sequence->tokens.begin(), sequence->tokens.end());
  fork->kv.ForkFrom(sequence->kv);
  return SequenceId{fork->id};
}

absl::Status CpuTarget::Close(SequenceId id) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  sequence->id = 0;
  sequence->tokens.clear();
  sequence->kv.Clear();
  sequence->has_pass = false;
  return absl::OkStatus();
}

absl::Status CpuTarget::Truncate(SequenceId id, uint32_t length) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_RETURN_IF_ERROR(TargetRules::Truncate(*sequence, length));
  const uint32_t computed = length > 0 ? length - 1 : 0;
  sequence->kv.Truncate(std::min(sequence->kv.length(), computed));
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CpuTarget::Length(SequenceId id) const {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Find(id));
  return static_cast<uint32_t>(sequence->tokens.size());
}

// --- prompts ---

absl::Status CpuTarget::Prefill(SequenceId id, std::span<const TokenId> tokens,
                                const PromptProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_RETURN_IF_ERROR(rules_.CheckPrompt(*sequence, tokens));
  KvSequence& kv = sequence->kv;
  const size_t before = sequence->tokens.size();
  if (tokens.empty()) return absl::OkStatus();
  const auto total = static_cast<uint32_t>(before + tokens.size()) - 1 - kv.length();
  OUTRIDER_RETURN_IF_ERROR(kv.Reserve(total, 0));
  sequence->has_pass = false;
  sequence->tokens.insert(sequence->tokens.end(), tokens.begin(), tokens.end());

  for (uint32_t done = 0; done < total;) {
    const uint32_t count = std::min(total - done, transformer_->row_count_max());
    batch_->Clear();
    batch_->AddChain(kv, std::span(sequence->tokens).subspan(kv.length(), count));
    absl::Status status = transformer_->Forward(*batch_, nullptr);
    if (status.ok()) {
      kv.Advance(count);
      done += count;
      if (!progress || progress(done, total) || done == total) continue;
      status = absl::CancelledError("the prompt was not read to its end");
    }
    sequence->tokens.resize(done > 0 ? kv.length() + 1 : before);
    kv.Truncate(kv.length());  // pages of what was not read
    return status;
  }
  return absl::OkStatus();
}

// --- passes ---

void CpuTarget::Run(std::span<const Pass> passes, std::span<PassResult> results) {
  OUTRIDER_CHECK(passes.size() == results.size(), "every pass has a result");
  rules_.BeginCall();
  batch_->Clear();
  admitted_.clear();
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    absl::StatusOr<Sequence*> sequence = Admit(pass);
    results[i].status = sequence.status();
    if (!sequence.ok()) continue;
    const auto row_count = static_cast<uint32_t>(1 + pass.nodes.size());
    if (row_count > batch_->free_row_count()) RunBatch(passes, results);
    const uint32_t root = batch_->AddChain((*sequence)->kv, {&(*sequence)->tokens.back(), 1});
    batch_->AddNodes((*sequence)->kv, root, pass.nodes);
    admitted_.push_back({i, *sequence, root, row_count});
  }
  RunBatch(passes, results);
}

// Nothing is wrong with the pass, and there is room for its rows and for what may be committed.
absl::StatusOr<CpuTarget::Sequence*> CpuTarget::Admit(const Pass& pass) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(pass.sequence));
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t depth, rules_.CheckPass(pass, *sequence));
  OUTRIDER_RETURN_IF_ERROR(
      sequence->kv.Reserve(1 + depth, static_cast<uint32_t>(pass.nodes.size())));
  rules_.Admit(*sequence);
  return sequence;
}

// The transformer over all that has been admitted, then the choices, a band of whole passes at a
// time.
void CpuTarget::RunBatch(std::span<const Pass> passes, std::span<PassResult> results) {
  if (admitted_.empty()) return;
  if (const absl::Status status = Forward(passes); status.ok()) {
    for (size_t begin = 0, end = 0; begin < admitted_.size(); begin = end) {
      uint32_t rows = 0;
      while (end < admitted_.size() &&
             rows + admitted_[end].row_count <= transformer_->logit_row_count_max()) {
        rows += admitted_[end++].row_count;
      }
      ChooseBand(passes, std::span(admitted_).subspan(begin, end - begin), results);
    }
  } else {
    for (const Admitted& admitted : admitted_) results[admitted.pass].status = status;
  }
  batch_->Clear();
  admitted_.clear();
}

absl::Status CpuTarget::Forward(std::span<const Pass> passes) {
  if (observer_ == nullptr) return transformer_->Forward(*batch_, nullptr);
  running_.clear();
  for (const Admitted& admitted : admitted_) {
    running_.push_back({admitted.pass, &passes[admitted.pass],
                        static_cast<uint32_t>(admitted.sequence->tokens.size()),
                        admitted.root_row});
  }
  observer_->BeginRun(running_);
  return transformer_->Forward(*batch_, observer_);
}

void CpuTarget::ChooseBand(std::span<const Pass> passes, std::span<const Admitted> band,
                           std::span<PassResult> results) {
  logit_rows_.clear();
  for (const Admitted& admitted : band) {
    for (uint32_t i = 0; i < admitted.row_count; ++i) {
      logit_rows_.push_back(admitted.root_row + i);
    }
  }
  const LogitRows logits = transformer_->Project(logit_rows_);
  const uint32_t first_row = band.front().root_row;
  pool_.ParallelRanges(band.size(), [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      const Admitted& admitted = band[i];
      Sequence& sequence = *admitted.sequence;
      const Pass& pass = passes[admitted.pass];
      const uint32_t root_row = admitted.root_row - first_row;
      const absl::StatusOr<Outcome> outcome = rules_.Walk(
          pass, sequence, [&](uint32_t row) { return logits.row(root_row + row); }, paths_[worker],
          scratch_[worker]);
      results[admitted.pass].status = outcome.status();
      if (!outcome.ok()) continue;  // what it wrote is dropped when the sequence is used next
      results[admitted.pass].outcome = *outcome;
      TargetRules::Keep(pass, sequence);
    }
  });
}

absl::Status CpuTarget::Commit(SequenceId id, const Outcome& outcome) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_ASSIGN_OR_RETURN(const std::span<const uint32_t> path,
                            rules_.Commit(*sequence, outcome));
  sequence->kv.Advance(1);  // the root
  for (const uint32_t node : path) sequence->kv.CommitScratch(node);
  sequence->kv.DropScratch();
  return absl::OkStatus();
}

}  // namespace outrider
