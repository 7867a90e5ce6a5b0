// Products of activation rows with weights in panels (formats/tensors/panel_layout.h), for any number of
// rows, with the bits of kernels/NUMERICS.md, section 4: quantised weights are quant_products.h's,
// F16 and BF16 (with bits of their own) split_products.h's, and F32 is here: segments of 32 inputs
// are dealt to threads, and their sums meet in shared memory, where one thread for each output and
// row adds them up, in order.
//
// So the bits depend neither on how many rows there are, nor on which kernel ran. Blocks that read
// the same panel are neighbours, and so at work at the same time: whatever the matrix's size, all
// but the first find it in the cache.
//
//   grid: rows / kRows rounded up, panels / kPanels rounded up
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/gpu_rows.h"

namespace outrider::gpu {

// How many of a kernel's blocks a multiprocessor shall hold, which is how many registers a thread
// may have, and then uses. 0: as the compiler likes.
template <typename Body>
constexpr uint32_t BlocksAtOnce() {
  if constexpr (requires { Body::kBlocksAtOnce; }) {
    return Body::kBlocksAtOnce;
  } else {
    return 0;
  }
}

// Blocks that have all panels between them.
template <typename Body>
OUTRIDER_HD uint32_t PanelBlocksOf(const Body& body) {
  if constexpr (requires { body.PanelBlocks(); }) {
    return body.PanelBlocks();
  } else {
    constexpr uint32_t kOutputs = Body::kPanels * kTileOutputs;
    return (body.product.outputs + kOutputs - 1) / kOutputs;
  }
}

// Where blocks that share out the inputs of a product leave their sums (some_rows_split.h).
struct SumsRoom {
  float* sums = nullptr;
  uint32_t* counters = nullptr;  // all zero before a product, and after it
};

// out[r, n] = sum over k of weights[n, k] * x[r, k], + bias[n]
struct Product {
  const std::byte* panels;
  size_t panel_bytes;
  uint32_t outputs;
  uint32_t inputs;
  const float* bias;  // [outputs]; null: none
  GpuRows x;          // in the form the weights' type asks for; floats on 16 bytes
  float* out;         // [rows, out_stride]
  size_t out_stride;
  SumsRoom room = {};            // null: blocks share nothing out
  uint32_t panels_of_block = 1;  // quantised: as many as keep blocks busy, one after another

  OUTRIDER_HD const std::byte* PanelAt(uint32_t panel) const {
    return panels + panel * panel_bytes;
  }
  OUTRIDER_HD void Store(uint32_t row, uint32_t output, float y) const {
    if (row >= x.row_count || output >= outputs) return;
    out[row * out_stride + output] = bias == nullptr ? y : y + bias[output];
  }
  // A result that is not complete, and what a thread has kept of it.
  OUTRIDER_HD void Keep(uint32_t row, uint32_t output, float sum) const {
    if (row < x.row_count && output < outputs) out[row * out_stride + output] = sum;
  }
  OUTRIDER_HD float Kept(uint32_t row, uint32_t output) const {
    return row < x.row_count && output < outputs ? out[row * out_stride + output] : 0;
  }
};

// Requires inputs % 4 == 0 and rows of x that begin on 16 bytes.
struct FloatProduct {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kPanels = 1;
  static constexpr uint32_t kRows = kTileRows;
  static constexpr uint32_t kSegment = 32;
  static constexpr uint32_t kPairs = kTileOutputs / 2;
  static constexpr uint32_t kRoundSegments = kThreads / kPairs;
  static constexpr uint32_t kSegmentStride = kRows * kTileOutputs + 16;  // neighbours' banks differ

  Product product;

  OUTRIDER_HD size_t SharedBytes() const { return kRoundSegments * kSegmentStride * sizeof(float); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t first_row = block.x() * kRows;
    const uint32_t segment_count = (product.inputs + kSegment - 1) / kSegment;
    const auto parts = block.template Share<float>(kRoundSegments * kSegmentStride);
    auto sums = block.template Private<float>();
    for (uint32_t first = 0; first < segment_count; first += kRoundSegments) {
      block.Each([&](uint32_t t) {
        if (first + t / kPairs >= segment_count) return;
        Parts made = {};
        Multiply(product.PanelAt(block.y()), first_row, first + t / kPairs, t % kPairs, made);
        for (uint32_t r = 0; r < kRows; ++r) {
          const uint32_t at = t / kPairs * kSegmentStride + r * kTileOutputs + 2 * (t % kPairs);
          parts.Set(t, at, made.first[r]);
          parts.Set(t, at + 1, made.second[r]);
        }
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        if (t >= kRows * kTileOutputs) return;
        for (uint32_t i = 0; i < kRoundSegments && first + i < segment_count; ++i) {
          sums[t] = sums[t] + parts.Get(t, i * kSegmentStride + t);
        }
      });
      block.Sync();
    }
    block.Each([&](uint32_t t) {
      if (t >= kRows * kTileOutputs) return;
      product.Store(first_row + t / kTileOutputs, block.y() * kTileOutputs + t % kTileOutputs,
                    sums[t]);
    });
  }

 private:
  // Of two outputs.
  struct Parts {
    float first[kRows];
    float second[kRows];
  };
  struct alignas(16) Four {
    float at[4];
  };

  OUTRIDER_HD void Multiply(const std::byte* panel, uint32_t first_row, uint32_t segment,
                            uint32_t pair, Parts& parts) const {
    const uint32_t begin = segment * kSegment;
    const uint32_t end = begin + kSegment < product.inputs ? begin + kSegment : product.inputs;
    for (uint32_t k = begin; k < end; k += 4) {
      Pair<float> w[4];  // of two outputs that lie side by side in a panel's line
      for (uint32_t i = 0; i < 4; ++i) {
        const auto* const at =
            reinterpret_cast<const float*>(panel) + size_t{k + i} * kTileOutputs + 2 * pair;
        w[i] = {at[0], at[1]};
      }
      for (uint32_t r = 0; r < kRows; ++r) {
        if (first_row + r >= product.x.row_count) continue;
        const Four x = *reinterpret_cast<const Four*>(product.x.values +
                                                      (first_row + r) * product.x.value_stride + k);
        for (uint32_t i = 0; i < 4; ++i) {
          parts.first[r] = Fma(w[i].first, x.at[i], parts.first[r]);
          parts.second[r] = Fma(w[i].second, x.at[i], parts.second[r]);
        }
      }
    }
  }
};

}  // namespace outrider::gpu
