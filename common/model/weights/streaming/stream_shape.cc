#include "common/model/weights/streaming/stream_shape.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "common/base/buffer.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/expert_places.h"
#include "common/model/weights/streaming/flash_lane.h"
#include "common/model/weights/streaming/flash_reads.h"
#include "common/model/weights/streaming/flash_tables.h"

namespace outrider {
namespace {

template <typename Weights>
uint64_t FileBytes(const LoadPlan<Weights>& plan) {
  uint64_t bytes = 0;
  for (const MatrixPart& part : plan.matrices) bytes += ReadsOf(part, kBlockBytesMax).bytes;
  return bytes;
}

// What is kept of a unit, pinned or not, and how long its reads are.
template <typename Weights>
void AddKept(const LoadPlan<Weights>& plan, StreamShape& shape) {
  for (const VectorPart& part : plan.vectors) shape.kept_bytes += part.count * sizeof(float);
  for (const MatrixPart& part : plan.matrices) {
    const PartReads reads = ReadsOf(part, kBlockBytesMax);
    shape.kept_bytes += 2 * reads.count() * sizeof(FlashRead);  // as vectors grow
    shape.staging_bytes = std::max(shape.staging_bytes, reads.staging_bytes());
  }
}

void AddExperts(const LoadPlanner& planner, const ModelSpec& spec, StreamShape& shape) {
  ExpertShape& experts = shape.experts;
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    const auto& router = spec.layers[n].feed_forward.router;
    if (!router) continue;
    // The router stays, as floats at the most, and its bias.
    const uint64_t outputs = RoundUp(router->expert_count, kPanelOutputs);
    shape.kept_bytes += RoundUp(outputs * spec.embedding_length * sizeof(float), kSlotAlignment) +
                        RoundUp(outputs * sizeof(float), kSlotAlignment);
    experts.used_count += router->used_count;
    for (uint32_t e = 0; e < router->expert_count; ++e) {
      const LoadPlan<FeedForwardWeights> plan = planner.Expert(n, e);
      experts.place_bytes = std::max<uint64_t>(experts.place_bytes, plan.slot_bytes);
      experts.file_bytes += FileBytes(plan);
      AddKept(plan, shape);
      shape.kept_bytes += sizeof(plan) + plan.matrices.size() * sizeof(MatrixPart) +
                          plan.vectors.size() * sizeof(VectorPart);
      ++experts.count;
    }
  }
  experts.place_bytes = RoundUp(experts.place_bytes, kSlotAlignment);
  experts.place_least = std::min(ExpertPlaces::PlacesLeast(spec), experts.count);
}

uint64_t RowsLookedUp(const ModelFile& model) {
  uint64_t bytes = 0;
  for (const std::string_view name : {"token_embd.weight", "position_embd.weight"}) {
    if (const ModelTensor* const tensor = model.Find(name); tensor != nullptr) {
      bytes = std::max(bytes, FlashTables::BytesOfRow(*tensor));
    }
  }
  return FlashTables::kLookUpsInFlight * (RoundUp(bytes, kBlockBytesMax) + 2 * kBlockBytesMax);
}

}  // namespace

StreamShape ShapeOf(const ModelFile& model, const ModelSpec& spec) {
  StreamShape shape;
  const LoadPlanner planner(model, spec);
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    const LoadPlan<LayerWeights> plan = planner.Layer(n);
    shape.layer_bytes.push_back(RoundUp(plan.slot_bytes, kSlotAlignment));
    shape.layer_file_bytes.push_back(FileBytes(plan));
    AddKept(plan, shape);
  }
  const LoadPlan<HeadWeights> head = planner.Head();
  shape.head_bytes = RoundUp(head.slot_bytes, kSlotAlignment);
  shape.head_file_bytes = FileBytes(head);
  AddKept(head, shape);
  AddExperts(planner, spec, shape);
  shape.kept_bytes += RowsLookedUp(model);
  return shape;
}

bool IsPinnedLayer(uint64_t n, uint64_t pinned, uint64_t count) {
  return (n + 1) * pinned / count > n * pinned / count;
}

uint64_t MemoryBytes(const StreamShape& shape, const StreamOptions& options) {
  uint64_t bytes =
      shape.kept_bytes + FlashLane::StagingBytes(shape.staging_bytes, options.reads_in_flight);
  uint64_t slot_bytes = 0;
  uint64_t streamed_count = 0;
  const auto add = [&](uint64_t unit_bytes, bool is_pinned, bool may_be_streamed) {
    if (may_be_streamed) slot_bytes = std::max(slot_bytes, unit_bytes);
    if (is_pinned) {
      bytes += unit_bytes;
    } else {
      ++streamed_count;
    }
  };
  const uint32_t count = shape.layer_count();
  const uint32_t pinned = std::min(options.pinned_layer_count, count);
  for (uint32_t n = 0; n < count; ++n) {
    add(shape.layer_bytes[n], IsPinnedLayer(n, pinned, count), true);
  }
  add(shape.head_bytes, options.pins_head, !options.pins_head);
  bytes += std::min<uint64_t>(options.slot_count, streamed_count) * slot_bytes;
  bytes += std::min<uint64_t>(options.expert_place_count, shape.experts.count) *
           shape.experts.place_bytes;
  return bytes + 2 * PageBuffer::PageSize();  // slots and what is pinned end with whole pages
}

uint64_t ExpertBytesPerPass(const StreamShape& shape, const StreamOptions& options) {
  const ExpertShape& experts = shape.experts;
  if (experts.count == 0) return 0;
  const uint64_t absent = experts.count - std::min(options.expert_place_count, experts.count);
  return experts.file_bytes / experts.count * experts.used_count * absent / experts.count;
}

uint64_t BytesPerPass(const StreamShape& shape, const StreamOptions& options) {
  uint64_t bytes = options.pins_head ? 0 : shape.head_file_bytes;
  const uint32_t count = shape.layer_count();
  const uint32_t pinned = std::min(options.pinned_layer_count, count);
  for (uint32_t n = 0; n < count; ++n) {
    if (!IsPinnedLayer(n, pinned, count)) bytes += shape.layer_file_bytes[n];
  }
  return bytes + ExpertBytesPerPass(shape, options);
}

}  // namespace outrider
