// The NEON kernels of float weights, each a PanelProduct (kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

struct ActivationRows;

namespace neon {

void MultiplyF32(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride);
void MultiplyF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride);
void MultiplyBF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);

}  // namespace neon
}  // namespace outrider
