// The AMX kernels that have files of their own, each a PanelProduct (kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

struct ActivationRows;

namespace amx {

void MultiplyQ4_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);
void MultiplyQ6_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);

}  // namespace amx
}  // namespace outrider
