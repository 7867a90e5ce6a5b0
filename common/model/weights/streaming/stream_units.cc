#include "common/model/weights/streaming/stream_units.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/streaming/stream_shape.h"

namespace outrider {
namespace {

size_t RoundUp(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

void PutVectors(std::span<const VectorPart> parts, const std::byte* values, std::byte* slot) {
  for (const VectorPart& part : parts) {
    std::memcpy(slot + part.at, values, part.count * sizeof(float));
    values += part.count * sizeof(float);
  }
}

// All of one matrix's reads.
size_t RouterBytes(std::span<const FlashRead> reads) {
  return RoundUp(reads.front().part.bytes, kVectorAlignment);
}

// It is not read with its layer: it stays, so that it can be asked before that has landed.
void KeepRouter(StreamUnit& unit) {
  if (!unit.has_experts()) return;
  const auto& plan = std::get<LoadPlan<LayerWeights>>(unit.plan);
  KeptRouter router = {.reads = {}, .weights = plan.offsets.router};
  const auto at = reinterpret_cast<size_t>(router.weights.matrix.data);
  const auto is_router = [&](const FlashRead& read) { return read.part.at == at; };
  std::ranges::copy_if(unit.reads, std::back_inserter(router.reads), is_router);
  std::erase_if(unit.reads, is_router);
  for (FlashRead& read : router.reads) read.part.at = 0;
  unit.router = std::move(router);
}

}  // namespace

absl::Status ReadVectors(const ModelFile& model, std::span<const VectorPart> parts,
                         std::vector<std::byte>& out) {
  for (const VectorPart& part : parts) {
    const ModelTensor& tensor = *part.tensor;
    std::vector<std::byte> stored(tensor.bytes);
    std::vector<float> values(tensor.dims[0]);
    OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, 0, 1, stored));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored, values));
    const auto bytes = std::as_bytes(std::span(values).subspan(part.first, part.count));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return absl::OkStatus();
}

// --- a unit ---

size_t StreamUnit::bytes() const {
  return std::visit([](const auto& p) { return p.slot_bytes; }, plan);
}

bool StreamUnit::has_experts() const {
  const auto* const layer = std::get_if<LoadPlan<LayerWeights>>(&plan);
  return layer != nullptr && layer->offsets.router.matrix.outputs > 0;
}

void StreamUnit::Finish(FilledUnit& filled) const {
  std::visit(
      [&](const auto& p) {
        PutVectors(p.vectors, vectors.data(), filled.memory);
        filled.weights = p.In(filled.memory);
      },
      plan);
  if (router) std::get<LayerWeights>(filled.weights).router = router->weights;
}

// --- all of them ---

absl::Status StreamUnits::Plan(const ModelFile& model, const ModelSpec& spec,
                               std::span<const DirectFile* const> files, const std::string& path,
                               const StreamOptions& options) {
  const LoadPlanner planner(model, spec);
  const uint32_t pinned = std::min(options.pinned_layer_count, spec.layer_count());
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    StreamUnit unit;
    const LoadPlan<LayerWeights> plan = planner.Layer(n);
    unit.plan = plan;
    unit.is_pinned = IsPinnedLayer(n, pinned, spec.layer_count());
    OUTRIDER_RETURN_IF_ERROR(Add(model, plan.matrices, plan.vectors, files, path, std::move(unit)));
  }
  StreamUnit unit;
  const LoadPlan<HeadWeights> plan = planner.Head();
  unit.plan = plan;
  unit.is_pinned = options.pins_head;
  OUTRIDER_RETURN_IF_ERROR(Add(model, plan.matrices, plan.vectors, files, path, std::move(unit)));
  for (uint32_t u = 0; u < units_.size(); ++u) {
    if (units_[u].is_pinned) continue;
    KeepRouter(units_[u]);
    order_.push_back(u);
    bytes_per_pass_ += ReadBytes(units_[u].reads);
  }
  Number();
  return absl::OkStatus();
}

absl::Status StreamUnits::Add(const ModelFile& model, std::span<const MatrixPart> matrices,
                              std::span<const VectorPart> vectors,
                              std::span<const DirectFile* const> files, const std::string& path,
                              StreamUnit unit) {
  for (const MatrixPart& part : matrices) {
    OUTRIDER_RETURN_IF_ERROR(CheckRunnable(*part.tensor, path));
  }
  OUTRIDER_ASSIGN_OR_RETURN(unit.reads, PlanReads(matrices, files, path));
  OUTRIDER_RETURN_IF_ERROR(ReadVectors(model, vectors, unit.vectors));
  units_.push_back(std::move(unit));
  return absl::OkStatus();
}

absl::Status StreamUnits::TakeMemory() {
  size_t pinned_bytes = 0;
  size_t router_bytes = 0;
  for (const StreamUnit& unit : units_) {
    if (unit.router) router_bytes += RouterBytes(unit.router->reads);
    if (unit.is_pinned) pinned_bytes += RoundUp(unit.bytes(), kVectorAlignment);
  }
  OUTRIDER_ASSIGN_OR_RETURN(pinned_memory_, PageBuffer::Create(pinned_bytes));
  OUTRIDER_ASSIGN_OR_RETURN(router_memory_, PageBuffer::Create(router_bytes));
  memory_bytes_ = pinned_bytes + router_bytes;
  std::byte* at = pinned_memory_.bytes().data();
  std::byte* router_at = router_memory_.bytes().data();
  for (StreamUnit& unit : units_) {
    if (unit.router) {
      unit.router->memory = router_at;
      unit.router->weights.matrix.data = router_at;
      router_at += RouterBytes(unit.router->reads);
    }
    if (!unit.is_pinned) continue;
    unit.kept.memory = at;
    at += RoundUp(unit.bytes(), kVectorAlignment);
  }
  return absl::OkStatus();
}

size_t StreamUnits::slot_bytes() const {
  size_t bytes = 0;
  for (const uint32_t u : order_) bytes = std::max(bytes, units_[u].bytes());
  return RoundUp(bytes, kVectorAlignment);
}

void StreamUnits::Number() {
  for (uint32_t place = 0; place < order_.size(); ++place) units_[order_[place]].place = place;
}

// --- giving up ---

std::optional<uint32_t> StreamUnits::LargestPinned() const {
  std::optional<uint32_t> largest;
  for (uint32_t u = 0; u < head(); ++u) {
    const StreamUnit& unit = units_[u];
    if (!unit.is_pinned || unit.has_experts()) continue;
    if (!largest || unit.bytes() > units_[*largest].bytes()) largest = u;
  }
  return largest;
}

void StreamUnits::Unpin(uint32_t u) {
  units_[u].is_pinned = false;
  order_.insert(std::ranges::lower_bound(order_, u), u);
  Number();
  bytes_per_pass_ += ReadBytes(units_[u].reads);
}

size_t StreamUnits::ReturnMemory(uint32_t u) {
  const size_t page = PageBuffer::PageSize();
  const auto first = reinterpret_cast<uintptr_t>(units_[u].kept.memory);
  const uintptr_t begin = RoundUp(first, page), end = (first + units_[u].bytes()) / page * page;
  if (begin >= end) return 0;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  return end - begin;
}

}  // namespace outrider
