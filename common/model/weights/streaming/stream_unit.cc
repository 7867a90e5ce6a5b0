#include "common/model/weights/streaming/stream_unit.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {

absl::Status ReadVectors(const ModelFile& model, std::span<const VectorPart> parts,
                         std::vector<std::byte>& out) {
  for (const VectorPart& part : parts) {
    const ModelTensor& tensor = *part.tensor;
    const uint64_t length = tensor.dims[0];
    std::vector<std::byte> stored(RowBytes(tensor.type, length));
    std::vector<float> values(length);
    OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, part.first / length, 1, stored));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored, values));
    const auto bytes = std::as_bytes(std::span(values).subspan(part.first % length, part.count));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return absl::OkStatus();
}

void PutVectors(std::span<const VectorPart> parts, std::span<const std::byte> values,
                std::byte* slot) {
  for (const VectorPart& part : parts) {
    const size_t bytes = part.count * sizeof(float);
    std::memcpy(slot + part.at, values.data(), bytes);
    values = values.subspan(bytes);
  }
}

absl::StatusOr<StreamUnit> StreamUnit::Create(const ModelFile& model, Plan plan,
                                              std::span<const DirectFile* const> files,
                                              const std::string& path) {
  StreamUnit unit;
  unit.plan = std::move(plan);
  const auto read = [&](const auto& parts) -> absl::Status {
    for (const MatrixPart& part : parts.matrices) {
      OUTRIDER_RETURN_IF_ERROR(CheckRunnable(*part.tensor, path));
    }
    OUTRIDER_ASSIGN_OR_RETURN(unit.reads, PlanReads(parts.matrices, files, path));
    return ReadVectors(model, parts.vectors, unit.vectors);
  };
  OUTRIDER_RETURN_IF_ERROR(std::visit(read, unit.plan));
  return unit;
}

size_t StreamUnit::slot_bytes() const {
  return std::visit([](const auto& parts) { return parts.slot_bytes; }, plan);
}

void StreamUnit::KeepRouter() {
  const auto* const layer = std::get_if<LoadPlan<LayerWeights>>(&plan);
  if (layer == nullptr || layer->offsets.router.matrix.outputs == 0) return;
  KeptRouter kept_router = {.reads = {}, .bias = {}, .weights = layer->offsets.router};
  const auto at = reinterpret_cast<size_t>(kept_router.weights.matrix.data);
  const auto is_router = [&](const FlashRead& read) { return read.part.at == at; };
  std::ranges::copy_if(reads, std::back_inserter(kept_router.reads), is_router);
  std::erase_if(reads, is_router);
  for (FlashRead& read : kept_router.reads) read.at -= at;
  const std::span<const float> bias = layer->offsets.router.bias;
  size_t bias_at = 0;
  for (const VectorPart& part : layer->vectors) {
    const size_t bytes = part.count * sizeof(float);
    if (!bias.empty() && part.at == reinterpret_cast<size_t>(bias.data())) {
      kept_router.bias = std::span<const std::byte>(vectors).subspan(bias_at, bytes);
    }
    bias_at += bytes;
  }
  router = std::move(kept_router);
}

void StreamUnit::PlaceRouter(std::byte* memory) {
  router->memory = memory;
  router->weights.matrix.data = memory;
  if (router->bias.empty()) return;
  std::byte* const bias = memory + router->matrix_bytes();
  std::ranges::copy(router->bias, bias);
  router->weights.bias = {reinterpret_cast<const float*>(bias), router->weights.bias.size()};
}

// All of its reads are one matrix's.
size_t StreamUnit::KeptRouter::matrix_bytes() const {
  return RoundUp(reads.front().part.bytes, kSlotAlignment);
}

size_t StreamUnit::KeptRouter::bytes() const {
  return matrix_bytes() + RoundUp(bias.size(), kSlotAlignment);
}

void StreamUnit::Finish(Filled& filled) const {
  std::visit(
      [&](const auto& parts) {
        PutVectors(parts.vectors, vectors, filled.memory);
        filled.weights = parts.In(filled.memory);
      },
      plan);
  if (router) std::get<LayerWeights>(filled.weights).router = router->weights;
}

}  // namespace outrider
