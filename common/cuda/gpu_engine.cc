#include "common/cuda/gpu_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/cuda/kernels/quant_products.h"
#include "common/engine/cpu_engine.h"

namespace outrider {
namespace {

// Pages of a device's memory.
class DevicePages final : public PagePlace {
 public:
  // What a slot's pieces are is uploaded once for each group: pages of one are as large as its
  // pieces say, and the spans they come in stay the layout's.
  explicit DevicePages(DeviceQueue& queue) : queue_(queue) {}

  absl::StatusOr<std::byte*> Take(size_t bytes) override {
    OUTRIDER_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                              DeviceBuffer::Create(queue_, bytes, "keys and values"));
    return buffers_.emplace_back(std::move(buffer)).data();
  }

  absl::Status Learn(std::span<const MemoryLayout::Piece> pieces) {
    std::vector<gpu::SlotPiece> halves;
    for (const MemoryLayout::Piece& piece : pieces) {
      halves.push_back({piece.at / sizeof(uint16_t), piece.bytes / sizeof(uint16_t)});
    }
    const size_t bytes = halves.size() * sizeof(gpu::SlotPiece);
    OUTRIDER_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                              DeviceBuffer::Create(queue_, bytes, "tables of pages"));
    queue_.Upload(buffer.data(), halves.data(), bytes);
    known_.push_back({pieces.data(), std::move(buffer)});
    return absl::OkStatus();
  }

  void Copy(std::span<const MemoryLayout::Piece> pieces, const CellAt& from, const CellAt& to,
            uint32_t count) override {
    const auto known = std::ranges::find(known_, pieces.data(), &Known::pieces);
    OUTRIDER_CHECK(known != known_.end(), "a layout's pieces stay where they are");
    queue_.Run(gpu::CopySlots{.pieces = known->on_device.As<gpu::SlotPiece>(),
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

  DeviceQueue& queue_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Known> known_;
};

}  // namespace

// --- making one ---

namespace {

// Of the numerics id: where sums of quantised weights are cut, and of floats whose tensor cores
// add, since those of another generation may do it in another order.
std::string BackendClass(const DeviceWeights& weights, const DeviceQueue& queue) {
  const std::string segments = Concat("cuda, segments of ", gpu::kQuantSegment);
  if (!weights.HaveOwnBits()) return segments;
  return Concat(segments, ", float tiles by two terms of ", queue.compute_capability());
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuEngine>> GpuEngine::Create(const ModelSpec& spec,
                                                             ResidentWeights& weights,
                                                             const Host& host,
                                                             const EngineOptions& options,
                                                             std::unique_ptr<DeviceQueue> queue) {
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  OUTRIDER_ASSIGN_OR_RETURN(DeviceWeights uploaded, DeviceWeights::Upload(spec, weights, *queue));
  EngineInfo info = {.model_name = Harmless(spec.name),
                     .model_file = Harmless(spec.file),
                     .numerics_id = NumericsId::Of(spec, weights.content_hash(),
                                                   BackendClass(uploaded, *queue), "f16"),
                     .content_hash = weights.content_hash(),
                     .vocabulary_size = spec.vocabulary_size,
                     .context_length = complete.context_length,
                     .sequence_count_max = complete.sequence_count_max,
                     .node_count_max = complete.node_count_max,
                     .row_count_max = complete.row_count_max,
                     .encoder_length_max = complete.encoder_length_max,
                     .batch_invariant = true,
                     .on_host_processor = false,
                     .forks_share_pages = true};
  std::unique_ptr<GpuEngine> engine(new GpuEngine(spec, host, std::move(info), std::move(queue)));
  engine->weights_ = std::move(uploaded);
  OUTRIDER_RETURN_IF_ERROR(engine->TakeMemory(weights, complete.kv_bytes));
  return engine;
}

absl::Status GpuEngine::TakeMemory(ResidentWeights& weights, uint64_t kv_bytes) {
  const uint32_t rows = info_.row_count_max;
  const uint32_t logit_rows = CpuEngine::LogitRows(rows, info_.node_count_max);
  const SequenceLimits limits = {.length_max = info_.context_length,
                                 .node_count_max = info_.node_count_max,
                                 .row_count_max = rows};
  MemoryLayout layout(spec_, info_.encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> page_counts,
                            DividePages(layout, limits, info_.sequence_count_max, kv_bytes));
  auto place = std::make_unique<DevicePages>(*queue_);
  DevicePages& pages = *place;
  OUTRIDER_ASSIGN_OR_RETURN(pages_, PageMemory::Create(std::move(layout), page_counts,
                                                       info_.sequence_count_max, std::move(place)));
  for (uint32_t group = 0; group < pages_->layout().group_count(); ++group) {
    OUTRIDER_RETURN_IF_ERROR(pages.Learn(pages_->layout().pieces(group)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      transformer_, GpuTransformer::Create(spec_, weights_, pages_->layout(), limits,
                                           weights.rope_freqs(), logit_rows, *queue_, host_.pool));
  OUTRIDER_ASSIGN_OR_RETURN(Batch batch, Batch::Create(pages_->layout(), limits));
  batch_ = std::make_unique<Batch>(std::move(batch));
  answers_ = std::make_unique<Answers>(info_, logit_rows, host_.pool);
  largest_.reserve(logit_rows);
  watched_.reserve(spec_.layer_count());
  for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
    sequences_.Add(std::make_unique<Sequence>(*pages_, limits));
  }
  return queue_->Wait();
}

// --- sequences ---

GpuEngine::Sequence& GpuEngine::At(SequenceId id) const {
  Sequence* const sequence = sequences_.Find(id);
  OUTRIDER_CHECK(sequence != nullptr, "a sequence is used between Open() and Close()");
  return *sequence;
}

absl::StatusOr<SequenceId> GpuEngine::Open() {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Open());
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> GpuEngine::Fork(SequenceId id, uint32_t length) {
  Sequence& sequence = At(id);
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Open());
  const absl::Status status = fork->memory.ForkFrom(sequence.memory, length);
  if (!status.ok()) {
    fork->id = 0;
    return status;
  }
  return SequenceId{fork->id};
}

void GpuEngine::Close(SequenceId id) {
  Sequence& sequence = At(id);
  sequence.id = 0;
  sequence.memory.Clear();
}

absl::Status GpuEngine::Hear(SequenceId, std::span<const float>) {
  return Unimplemented(spec_.name, ": no layer hears an encoder on a GPU");
}

// --- runs ---

absl::Status GpuEngine::Run(EngineRun& run) {
  ++run_count_;
  batch_->Clear();
  for (const RunPart& part : run.parts) AddPart(part);
  const absl::Status status = Compute(run);
  if (!status.ok()) {
    static_cast<void>(queue_->Wait());  // none of it is under way when the next run begins
    for (const RunPart& part : run.parts) {
      SequenceMemory& memory = At(part.sequence).memory;
      memory.Truncate(memory.length());
    }
  }
  return status;
}

void GpuEngine::AddPart(const RunPart& part) {
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

// Whatever needs no answer of the device is asked for before the first one is awaited.
absl::Status GpuEngine::Compute(EngineRun& run) {
  answers_->Begin(run);
  std::span<const uint32_t> rows = answers_->NextBand();
  ListWatched(run);
  const GpuTransformer::Watch watch = {
      .layers = watched_,
      .exits = device_exits_.get(),
      .begin_exits = [&] { BeginExits(run); },
      .see = [&](const GpuTransformer::WatchedLayer& watched, uint32_t slot,
                 std::span<const float> states) { See(run, watched, slot, states); }};
  OUTRIDER_RETURN_IF_ERROR(transformer_->Forward(*batch_, watch, rows));
  OUTRIDER_RETURN_IF_ERROR(transformer_->SeeWatched());
  while (!rows.empty()) {
    OUTRIDER_RETURN_IF_ERROR(Answer());
    rows = answers_->NextBand();
    if (!rows.empty()) transformer_->Project(rows);
  }
  return transformer_->Finish();
}

absl::Status GpuEngine::Answer() {
  if (answers_->TakesLargest()) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool is_answered, AnswerByLargest());
    if (is_answered) return absl::OkStatus();
  }
  OUTRIDER_ASSIGN_OR_RETURN(const LogitRows logits, transformer_->Logits());
  answers_->Answer(logits);
  return absl::OkStatus();
}

// False where a row has no largest logit: who chooses from all of them says what is wrong.
absl::StatusOr<bool> GpuEngine::AnswerByLargest() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::span<const gpu::BestLogit> found,
                            transformer_->LargestLogits());
  largest_.clear();
  for (const gpu::BestLogit& best : found) {
    if (!best.sound || best.value == -std::numeric_limits<float>::infinity()) return false;
    largest_.push_back(static_cast<TokenId>(best.token));
  }
  answers_->Answer(largest_);
  return true;
}

// --- what is seen between layers ---

void GpuEngine::ListWatched(const EngineRun& run) {
  const auto is_told = [](const TreeWalk& walk) {
    return walk.is_guessed || walk.pruning != Pruning::kOff;
  };
  exits_look_ = exits_ != nullptr && std::ranges::any_of(run.walks, is_told);
  exits_have_begun_ = false;
  watched_.clear();
  for (uint32_t layer = 0; layer < spec_.layer_count(); ++layer) {
    const auto is_asked = [&](const HiddenAfterLayer& hidden) { return hidden.layer == layer; };
    const bool comes_here = std::ranges::any_of(run.hidden, is_asked);
    const std::optional<uint32_t> exit = ExitAt(layer);
    if (comes_here || exit) watched_.push_back({layer, comes_here, exit});
  }
}

// The last layer has logits of its own.
std::optional<uint32_t> GpuEngine::ExitAt(uint32_t layer) const {
  if (!exits_look_ || layer + 1 == spec_.layer_count()) return std::nullopt;
  return exits_->ExitAfter(layer);
}

// Once a run.
void GpuEngine::BeginExits(const EngineRun& run) {
  if (std::exchange(exits_have_begun_, true)) return;
  exits_->BeginRun(run.walks);
  device_exits_->Begin(exits_->round());
}

// While later layers run.
void GpuEngine::See(const EngineRun& run, const GpuTransformer::WatchedLayer& watched,
                    uint32_t slot, std::span<const float> states) {
  for (const HiddenAfterLayer& asked : run.hidden) {
    if (asked.layer == watched.layer) std::ranges::copy(states, asked.out.begin());
  }
  if (watched.exit) exits_->Hear(watched.layer, device_exits_->ScoresOf(slot));
}

// --- exits ---

absl::Status GpuEngine::AttachExits(const TrainedExits& trained, const std::string& path,
                                    const ExitOptions& options, ExitSink& sink) {
  OUTRIDER_RETURN_IF_ERROR(
      transformer_->MakeRoomForWatched(static_cast<uint32_t>(trained.exits.size())));
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceExits> scoring,
      DeviceExits::Create(trained, path,
                          {.spec = spec_, .info = info_, .weights = weights_, .queue = *queue_},
                          options, transformer_->slot_count()));
  OUTRIDER_ASSIGN_OR_RETURN(exits_, ExitHeads::Create(trained, path,
                                                      {.spec = spec_,
                                                       .info = info_,
                                                       .head = nullptr,
                                                       .kernels = host_.kernels,
                                                       .pool = host_.pool},
                                                      options, sink));
  device_exits_ = std::move(scoring);
  return absl::OkStatus();
}

void GpuEngine::DetachExits() {
  exits_.reset();
  device_exits_.reset();
}

void GpuEngine::SwitchExit(uint32_t exit, bool on) {
  OUTRIDER_CHECK(exits_ != nullptr, "exits are attached before they are switched");
  exits_->Switch(exit, on);
}

}  // namespace outrider
