// Rows that were made for this machine's kernels, with their scales as a GPU wants them
// (kernels/products.h), in memory of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "common/kernels/activations.h"

namespace outrider::gpu {

class RowsOnGpu {
 public:
  // In blocks of `block`; floats have none, and are as they are.
  RowsOnGpu(const ActivationRows& x, uint32_t block) : view_(x) {
    if (x.scales == nullptr) return;
    const uint32_t block_count = x.inputs / block;
    view_.scale_stride = (block_count + 3) / 4 * 4;
    scales_.resize(x.row_count * view_.scale_stride + 3);
    float* at = scales_.data();
    while (reinterpret_cast<uintptr_t>(at) % 16 != 0) ++at;
    for (uint32_t row = 0; row < x.row_count; ++row) {
      for (uint32_t b = 0; b < block_count; ++b) {
        at[row * view_.scale_stride + b] = x.scales[b * x.scale_stride + row];
      }
    }
    view_.scales = at;
  }
  RowsOnGpu(const RowsOnGpu&) = delete;
  RowsOnGpu& operator=(const RowsOnGpu&) = delete;

  const ActivationRows& View() const { return view_; }

 private:
  ActivationRows view_;
  std::vector<float> scales_;
};

}  // namespace outrider::gpu
