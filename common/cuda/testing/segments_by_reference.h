// Products as a GPU adds them up (kernels/quant_products.h), by the scalar references of
// common/kernels: those of quantised weights segment after segment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/cuda/kernels/quant_products.h"
#include "common/kernels/activations.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/kernels/weight_matrix.h"

namespace outrider::gpu {

// What panels, and rows, have of `count` inputs from `first` on.
inline Bytes PanelsOfInputs(const PanelType& type, const std::byte* panels, uint32_t panel_count,
                            uint32_t inputs, uint32_t first, uint32_t count) {
  const QuantPanel& quants = *type.quants;
  Bytes some(panel_count * type.Size(count));
  const size_t lines = quants.lines * kLineBytes, halves = quants.halves * kHalvesBytes;
  for (uint32_t panel = 0; panel < panel_count; ++panel) {
    const std::byte* const from = panels + panel * type.Size(inputs);
    std::byte* const to = some.data() + panel * type.Size(count);
    std::memcpy(to, from + first / quants.block * lines, count / quants.block * lines);
    std::memcpy(to + HalvesOffset(quants, count),
                from + HalvesOffset(quants, inputs) + first / quants.block * halves,
                count / quants.block * halves);
  }
  return some;
}
inline ActivationRows RowsOfInputs(const ActivationRows& x, uint32_t block, uint32_t first,
                                   uint32_t count) {
  ActivationRows some = x;
  some.inputs = count;
  some.quants += first;
  some.scales += first / block * x.scale_stride;
  some.sums += first / 16;
  return some;
}

inline void MultiplyByReference(const PanelType& type, const std::byte* panels, uint32_t outputs,
                                const ActivationRows& x, float* out, size_t stride) {
  PanelProduct* const reference = KernelsFor(Isa::kScalar).products.*type.kernel;
  const uint32_t panel_count = PanelCount(outputs);
  if (type.quants == nullptr) return reference(panels, panel_count, outputs, x, out, stride);
  std::vector<float> sums(x.row_count * stride);
  for (uint32_t first = 0; first < x.inputs; first += kQuantSegment) {
    const uint32_t count = std::min(kQuantSegment, x.inputs - first);
    Bytes some = PanelsOfInputs(type, panels, panel_count, x.inputs, first, count);
    reference(some.data(), panel_count, outputs, RowsOfInputs(x, type.block(), first, count),
              sums.data(), stride);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (i % stride < outputs) out[i] = first == 0 ? sums[i] : out[i] + sums[i];
    }
  }
}

}  // namespace outrider::gpu
