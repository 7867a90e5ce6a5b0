// The rows of one run of the transformer, as tensors: what enters it, and for each sequence where
// its rows' keys and values go and which of its places they do not see.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/engine/engine.h"
#include "common/torch/layer_windows.h"
#include "common/torch/tensor_of.h"
#include "common/torch/torch_sequence.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// A run's rows of one sequence, and which of its places they see.
struct RowSegment {
  TorchSequence* sequence;
  int64_t first_row;
  int64_t row_count;
  at::Tensor places;               // [rows], int64: where their keys and values go
  int64_t first_place, end_place;  // what is looked at
  // By window, [1, rows, places], bool: the keys a row does not see.
  std::vector<at::Tensor> hidden;
};

class RunRows {
 public:
  // The windows outlive it.
  RunRows(const LayerWindows& windows, const EngineInfo& info, at::Device device)
      : windows_(windows), node_count_max_(info.node_count_max), device_(device) {}

  // Places the part's chain and nodes in its sequence.
  void Add(TorchSequence& sequence, const RunPart& part);

  std::span<const RowSegment> segments() const { return segments_; }
  // What enters the first layer, but for what positions add to it.
  at::Tensor Embedded(const TorchTransformer& model) const;
  at::Tensor positions() const { return TensorOf(positions_, device_); }

 private:
  void Give(int64_t row, const float* embedding);
  at::Tensor HiddenFrom(TorchSequence& sequence, const RunPart& part, int64_t first_place,
                        int64_t end_place, std::optional<uint32_t> window) const;

  const LayerWindows& windows_;
  const int64_t node_count_max_;
  const at::Device device_;
  std::vector<int64_t> tokens_;
  std::vector<int64_t> positions_;
  std::vector<int64_t> given_rows_;  // whose embeddings are the caller's
  std::vector<const float*> given_;
  std::vector<RowSegment> segments_;
};

}  // namespace outrider
