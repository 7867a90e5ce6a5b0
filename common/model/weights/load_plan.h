// What is read for one key and where in a slot of memory it goes: made once for every key before
// anything is read, so that a store may load any key into any slot that is large enough.
//
//   const LoadPlan<LayerWeights> plan = planner.Layer(3);
//   ... the rows of plan.matrices and plan.vectors go to slot + part.at ...
//   const LayerWeights weights = plan.In(slot);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

// Matrices lie in a slot on this boundary, and have whole multiples of it to themselves: what comes from
// flash in whole blocks may land there.
inline constexpr size_t kSlotAlignment = 4096;

// Rows [first_row, first_row + view.outputs) of a matrix.
struct MatrixPart {
  const ModelTensor* tensor;
  uint64_t first_row;
  WeightMatrix view;  // all but data is set
  size_t at;          // where in the slot
  size_t bytes;
};

// Elements [first, first + count) of a vector, as F32; or of an expert's row of a matrix of biases,
// of a head's row of one of norms.
struct VectorPart {
  const ModelTensor* tensor;
  uint64_t first;
  uint64_t count;
  size_t at;
};

template <typename Weights>
struct LoadPlan {
  std::vector<MatrixPart> matrices;  // in the order a pass needs them
  std::vector<VectorPart> vectors;
  size_t slot_bytes = 0;

  // Views of what lies in a slot, which is aligned to kVectorAlignment at least.
  Weights In(const std::byte* slot) const;

  Weights offsets;  // the same views, but pointers are how far from the slot's beginning they point
};

class LoadPlanner {
 public:
  // Both outlive it.
  LoadPlanner(const ModelFile& model, const ModelSpec& spec) : model_(model), spec_(spec) {}

  // Without embeddings where they are the head.
  LoadPlan<EntryWeights> Entry() const;
  LoadPlan<HeadWeights> Head() const;
  LoadPlan<LayerWeights> Layer(uint32_t layer) const;
  LoadPlan<FeedForwardWeights> Expert(uint32_t layer, uint32_t expert) const;

 private:
  const ModelFile& model_;
  const ModelSpec& spec_;
};

// Unimplemented, naming the tensor, when its type has no kernel and cannot be decoded.
absl::Status CheckRunnable(const ModelTensor& tensor, const std::string& path);

}  // namespace outrider
