// Which rows of which tensor go where: a model's weights laid out in one piece of memory before
// anything is read. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/models/model_file.h"
#include "common/model/layer_weights.h"
#include "common/model/model_spec.h"

namespace outrider {

// Rows [first_row, first_row + row_count) of a matrix. Its view gets its data when there is memory.
struct MatrixPart {
  const ModelTensor* tensor;
  uint64_t first_row;
  WeightMatrix* view;  // all but data is set
  size_t at;           // where in the memory
  size_t bytes;
};

// Elements [first, first + count) of a vector, as F32.
struct VectorPart {
  const ModelTensor* tensor;
  uint64_t first;
  uint64_t count;
  std::span<const float>* view;
  size_t at;
};

class LoadPlan {
 public:
  // The views named by the parts are those of `outer` and `layers`, which stay where they are.
  LoadPlan(const ModelFile& model, const ModelSpec& spec, OuterWeights& outer,
           std::vector<LayerWeights>& layers);

  // Unimplemented, naming the tensor, when an element type cannot be decoded.
  absl::Status Check(const std::string& path) const;

  // In the order a pass needs them.
  std::span<const MatrixPart> matrices() const { return matrices_; }
  std::span<const VectorPart> vectors() const { return vectors_; }
  size_t memory_bytes() const { return memory_bytes_; }

 private:
  void PlanLayer(uint32_t layer, const AttentionShape& shape, LayerWeights& weights);
  void PlanQueryKeyValue(std::string_view block, const AttentionShape& shape,
                         LayerWeights& weights);
  void Plan(std::string_view name, Norm& norm);
  void Plan(std::string_view name, Linear& linear);
  void PlanRows(std::string_view name, uint64_t first, uint64_t count, Linear& linear);
  void PlanTable(std::string_view name, WeightMatrix& view);
  void PlanMatrix(const ModelTensor& tensor, uint64_t first, uint64_t count, WeightLayout layout,
                  WeightMatrix& view);
  void PlanVector(std::string_view name, uint64_t first, uint64_t count,
                  std::span<const float>& view);
  void PlanVector(std::string_view name, std::span<const float>& view);
  size_t Place(size_t bytes);

  const ModelFile& model_;
  const ModelSpec& spec_;
  std::vector<MatrixPart> matrices_;
  std::vector<VectorPart> vectors_;
  size_t memory_bytes_ = 0;
};

}  // namespace outrider
