// Quantised blocks to float, exactly as ggml defines each type (dequantize.cc spells the layouts
// out).
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

// Whether Dequantize() knows `type`: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4 Q2_K
// Q3_K Q4_K Q5_K Q6_K IQ4_XS IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ1_0 TQ2_0.
bool CanDequantize(TensorType type);

// `blocks` holds exactly RowBytes(type, out.size()) bytes, at any alignment. Unimplemented for
// other types.
absl::Status Dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace outrider
