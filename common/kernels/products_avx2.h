// The AVX2 kernels that have files of their own, each a PanelProduct (kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

struct ActivationRows;

namespace avx2 {

void MultiplyF32(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride);
void MultiplyF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                 const ActivationRows& x, float* out, size_t out_stride);
void MultiplyBF16(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);
void MultiplyQ4_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);
void MultiplyQ6_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride);

}  // namespace avx2
}  // namespace outrider
