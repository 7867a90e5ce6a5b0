// Floats to quantised blocks. Deterministic: the same floats give the same bytes on every machine
// (no library maths, no fused multiply-add), so a converted file can be compared by its hash.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

// Whether Quantize() knows `type`: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K IQ4_NL
// IQ4_XS.
bool CanQuantize(TensorType type);

// `out` holds exactly RowBytes(type, values.size()) bytes, at any alignment; values.size() must be
// whole blocks. InvalidArgument, naming the element, for a finite value beyond what the type can
// hold, and for a NaN or infinity in a block type, whose neighbours it would spoil; `out` is then
// untouched. Unimplemented for other types.
//
// Works on one thread, a whole row or many at once; give each thread its own rows.
absl::Status Quantize(TensorType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace outrider
