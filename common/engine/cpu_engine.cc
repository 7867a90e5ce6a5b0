#include "common/engine/cpu_engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {

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
  EngineInfo info = InfoFor(spec, complete, content_hash, "cpu", "f16");
  std::unique_ptr<CpuEngine> engine(
      new CpuEngine(spec, std::move(weights), std::move(info), kernels, pool));
  OUTRIDER_RETURN_IF_ERROR(engine->TakeMemory(complete.kv_bytes));
  return engine;
}

namespace {

// Keys and values grow with the context; the one that the free memory has room for, in whole pages.
absl::Status NoRoomFor(const EngineInfo& info, uint64_t page_bytes) {
  const auto free = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * PageBuffer::PageSize();
  const double share = std::min(1.0, static_cast<double>(free) / static_cast<double>(page_bytes));
  const auto fits = static_cast<uint32_t>(share * info.context_length) / kPageTokens * kPageTokens;
  return ResourceExhausted("keys and values of ", info.sequence_count_max,
                           info.sequence_count_max == 1 ? " context of " : " contexts of ",
                           info.context_length, " tokens take ", HumanBytes(page_bytes),
                           ", and the machine has ", HumanBytes(free), " free; a --context of ",
                           std::max(fits, kPageTokens), " fits");
}

}  // namespace

CpuEngine::CpuEngine(const ModelSpec& spec, std::shared_ptr<WeightStore> weights, EngineInfo info,
                     const Kernels& kernels, ThreadPool& pool)
    : PagedEngine(spec, std::move(info)),
      weights_(std::move(weights)),
      kernels_(kernels),
      pool_(pool) {}

absl::Status CpuEngine::TakeMemory(uint64_t kv_bytes) {
  MemoryLayout layout(spec(), info().encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> page_counts,
                            DividePages(layout, limits(), info().sequence_count_max, kv_bytes));
  uint64_t page_bytes = 0;
  for (uint32_t i = 0; i < layout.group_count(); ++i) {
    page_bytes += page_counts[i] * layout.page_bytes(i);
  }
  absl::StatusOr<std::unique_ptr<PageMemory>> pages =
      PageMemory::Create(std::move(layout), page_counts, info().sequence_count_max);
  if (absl::IsResourceExhausted(pages.status())) return NoRoomFor(info(), page_bytes);
  OUTRIDER_RETURN_IF_ERROR(pages.status());
  OUTRIDER_RETURN_IF_ERROR(Begin(*std::move(pages)));
  OUTRIDER_ASSIGN_OR_RETURN(
      transformer_, Transformer::Create(spec(), *weights_, this->pages().layout(), kernels_, pool_,
                                        info().row_count_max, logit_rows_max()));
  answers_ = std::make_unique<Answers>(info(), logit_rows_max(), pool_);
  return absl::OkStatus();
}

absl::Status CpuEngine::Hear(SequenceId id, std::span<const float> states) {
  SequenceMemory& memory = At(id);
  OUTRIDER_RETURN_IF_ERROR(memory.ReserveEncoder(CountEncoderRows(states, spec(), info())));
  const absl::Status status = transformer_->WriteEncoder(states, memory);
  if (!status.ok()) memory.DropEncoder();
  return status;
}

// --- runs ---

absl::Status CpuEngine::Compute(const Batch& batch, EngineRun& run) {
  OUTRIDER_RETURN_IF_ERROR(Forward(batch, run));
  for (const HiddenAfterLayer& asked : run.hidden) {
    if (asked.layer + 1 < spec().layer_count()) continue;
    for (uint32_t row = 0; row < batch.row_count(); ++row) {
      std::ranges::copy(transformer_->hidden(row),
                        asked.out.begin() + ptrdiff_t{row} * spec().embedding_length);
    }
  }
  return Answer(run);
}

// The head is leased once, for however many bands there are.
absl::Status CpuEngine::Answer(EngineRun& run) {
  answers_->Begin(run);
  std::span<const uint32_t> rows = answers_->NextBand();
  if (rows.empty()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const Lease<HeadWeights> head, weights_->Acquire(HeadKey{}));
  for (; !rows.empty(); rows = answers_->NextBand()) {
    answers_->Answer(transformer_->Project(rows, *head));
  }
  return absl::OkStatus();
}

absl::Status CpuEngine::Forward(const Batch& batch, const EngineRun& run) {
  ExitHeads* const exits = run.walks.empty() ? nullptr : exits_.get();
  if (exits != nullptr) exits->BeginRun(run.walks);
  if (exits == nullptr && run.hidden.empty()) return transformer_->Forward(batch, nullptr);
  RunObserver observer(run.hidden, exits);
  return transformer_->Forward(batch, &observer);
}

// --- exits ---

absl::Status CpuEngine::AttachExits(const TrainedExits& trained, const std::string& path,
                                    const ExitOptions& options, ExitSink& sink) {
  OUTRIDER_ASSIGN_OR_RETURN(Lease<HeadWeights> head, weights_->Acquire(HeadKey{}));
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<ExitHeads> exits,
      ExitHeads::Create(
          trained, path,
          {.spec = spec(), .info = info(), .head = *head, .kernels = kernels_, .pool = pool_},
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
