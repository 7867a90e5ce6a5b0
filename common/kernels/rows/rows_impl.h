// The row kernels for any kind of lanes (lanes_*.h): the algorithms of rows_*.h as one table.
#pragma once

#include "common/kernels/kernels.h"
#include "common/kernels/rows/rows_attention.h"
#include "common/kernels/rows/rows_elementary.h"
#include "common/kernels/rows/rows_norms.h"
#include "common/kernels/rows/rows_quantize.h"
#include "common/kernels/rows/rows_rope.h"

namespace outrider {
namespace {

template <class Lanes>
constexpr RowKernels kRowsOf = {
    .quantize = QuantizeRow<Lanes>,
    .rms_norm = RmsNormRow<Lanes>,
    .layer_norm = LayerNormRow<Lanes>,
    .add = AddRow<Lanes>,
    .weighted_sum = WeightedSumOfRows<Lanes>,
    .rope_interleaved = RopeInterleavedRow<Lanes>,
    .rope_halves = RopeHalvesRow<Lanes>,
    .silu_gate = SiluGateRow<Lanes>,
    .gelu_tanh_gate = GeluTanhGateRow<Lanes>,
    .gelu_tanh = GeluTanhRow<Lanes>,
    .clamped_silu_gate = ClampedSiluGateRow<Lanes>,
    .soft_cap = SoftCapRow<Lanes>,
    .exp = ExpRow<Lanes>,
    .to_half = ToHalfRow<Lanes>,
    .attend = AttendRow<Lanes>,
};

}  // namespace
}  // namespace outrider
