#include "common/cuda/gpu_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Pages of a device's memory.
class DevicePages final : public PagePlace {
 public:
  // What a slot's pieces are is uploaded once for each group: pages of one are as large as its
  // pieces say, and the spans they come in stay the layout's.
  explicit DevicePages(std::shared_ptr<DeviceQueue> queue) : queue_(std::move(queue)) {}

  absl::StatusOr<std::byte*> Take(size_t bytes) override {
    OUTRIDER_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                              DeviceBuffer::Create(*queue_, bytes, "keys and values"));
    return buffers_.emplace_back(std::move(buffer)).data();
  }

  absl::Status Learn(std::span<const MemoryLayout::Piece> pieces) {
    std::vector<gpu::SlotPiece> halves;
    for (const MemoryLayout::Piece& piece : pieces) {
      halves.push_back({piece.at / sizeof(uint16_t), piece.bytes / sizeof(uint16_t)});
    }
    const size_t bytes = halves.size() * sizeof(gpu::SlotPiece);
    OUTRIDER_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                              DeviceBuffer::Create(*queue_, bytes, "tables of pages"));
    queue_->Upload(buffer.data(), halves.data(), bytes);
    known_.push_back({pieces.data(), std::move(buffer)});
    return absl::OkStatus();
  }

  void Copy(std::span<const MemoryLayout::Piece> pieces, const CellAt& from, const CellAt& to,
            uint32_t count) override {
    const auto known = std::ranges::find(known_, pieces.data(), &Known::pieces);
    OUTRIDER_CHECK(known != known_.end(), "a layout's pieces stay where they are");
    queue_->Run(gpu::CopySlots{.pieces = known->on_device.As<gpu::SlotPiece>(),
                               .from = reinterpret_cast<const uint16_t*>(from.page),
                               .to = reinterpret_cast<uint16_t*>(to.page),
                               .from_slot = from.slot,
                               .to_slot = to.slot,
                               .slot_count = count},
                static_cast<uint32_t>(pieces.size()), 1);
  }

 private:
  struct Known {
    const MemoryLayout::Piece* pieces;
    DeviceBuffer on_device;
  };

  const std::shared_ptr<DeviceQueue> queue_;  // the engine's pages go after all else of it
  std::vector<DeviceBuffer> buffers_;
  std::vector<Known> known_;
};

}  // namespace

// --- making one ---

absl::StatusOr<std::unique_ptr<GpuEngine>> GpuEngine::Create(const ModelSpec& spec,
                                                             ResidentWeights& weights,
                                                             HostSource source,
                                                             const EngineOptions& options,
                                                             std::unique_ptr<DeviceQueue> queue) {
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  EngineInfo info = InfoFor(spec, complete, weights.content_hash(), "cuda", "f16");
  info.on_host_processor = false;
  std::unique_ptr<GpuEngine> engine(
      new GpuEngine(spec, std::move(source), std::move(info), std::move(queue)));
  OUTRIDER_RETURN_IF_ERROR(engine->TakeMemory(weights, complete.kv_bytes));
  return engine;
}

absl::Status GpuEngine::TakeMemory(ResidentWeights& weights, uint64_t kv_bytes) {
  OUTRIDER_ASSIGN_OR_RETURN(weights_, DeviceWeights::Upload(spec(), weights, *queue_));
  MemoryLayout layout(spec(), info().encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> page_counts,
                            DividePages(layout, limits(), info().sequence_count_max, kv_bytes));
  auto owned_place = std::make_unique<DevicePages>(queue_);
  DevicePages& place = *owned_place;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<PageMemory> owned_pages,
                            PageMemory::Create(std::move(layout), page_counts,
                                               info().sequence_count_max, std::move(owned_place)));
  OUTRIDER_RETURN_IF_ERROR(Begin(std::move(owned_pages)));
  for (uint32_t group = 0; group < pages().layout().group_count(); ++group) {
    OUTRIDER_RETURN_IF_ERROR(place.Learn(pages().layout().pieces(group)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      transformer_, GpuTransformer::Create(spec(), weights_, pages().layout(), limits(),
                                           weights.rope_freqs(), logit_rows_max(), *queue_, pool_));
  answers_ = std::make_unique<Answers>(info(), logit_rows_max(), pool_);
  return queue_->Wait();
}

absl::Status GpuEngine::Hear(SequenceId, std::span<const float>) {
  return Unimplemented(spec().name, ": no layer hears an encoder on a GPU");
}

// --- runs ---

absl::Status GpuEngine::Compute(const Batch& batch, EngineRun& run) {
  OUTRIDER_RETURN_IF_ERROR(Forward(batch, run));
  answers_->Begin(run);
  for (;;) {
    const std::span<const uint32_t> rows = answers_->NextBand();
    if (rows.empty()) return queue_->Wait();
    transformer_->Project(rows);
    OUTRIDER_ASSIGN_OR_RETURN(const bool is_answered, AnswerByLists());
    if (is_answered) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const LogitRows logits, transformer_->Logits());
    answers_->Answer(logits);
  }
}

// False where choosers want all logits, or lists of few do not tell.
absl::StatusOr<bool> GpuEngine::AnswerByLists() {
  const std::span<const Wish> wishes = answers_->Wishes();
  if (wishes.empty()) return false;
  OUTRIDER_ASSIGN_OR_RETURN(const std::span<const Shortlist> lists,
                            transformer_->Shortlists(wishes));
  return !lists.empty() && answers_->Answer(lists);
}

absl::Status GpuEngine::Forward(const Batch& batch, const EngineRun& run) {
  watch_.BeginRun(run);
  const GpuTransformer::Watch watch = {
      .wants = [&](uint32_t layer) { return watch_.Wants(layer); },
      .see = [&](uint32_t layer, std::span<const float> states) { watch_.See(layer, states); }};
  return transformer_->Forward(batch, &watch);
}

}  // namespace outrider
