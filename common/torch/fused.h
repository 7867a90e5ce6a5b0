// Pieces of a layer as single steps of autograd, for training on the CPU.
//
// Written as chains of tensor operations, norms, rope, gates and attention read and write memory
// many times over, and autograd as often again: together they took as long as all matrix products
// of an 11M model. These do the same in one pass each, and attention leaves out the keys that a
// block of queries cannot see.
//
// They stand in for the plain operations only where CanFuse() says so. A pass without gradients is
// always the plain one, which is what the core is held against.
#pragma once

#include <ATen/core/Tensor.h>

namespace outrider {

// Gradients are wanted, and `x` is float32 on the CPU outside of autocast.
bool CanFuse(const at::Tensor& x);

// x: [..., length], weight: [length].
at::Tensor FusedNormalizeRms(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// silu(gate) * up
at::Tensor FusedSiluGate(const at::Tensor& gate, const at::Tensor& up);

// Turns the pairs (2i, 2i + 1) of x [B, T, heads, 2 * pairs] by the angles whose cosines and sines
// are given, [T or B, T, 1, pairs].
at::Tensor FusedTurnPairs(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// Attend() of torch_attention.h where row t of a sequence sees the keys [first_keys[t], t].
//   query [B, T, heads, length], key, value [B, T, kv heads, length], first_keys [B, T], int64
at::Tensor FusedAttend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       double scale, const at::Tensor& first_keys);

// KL(softmax(wanted / temperature) || softmax(said / temperature)) of each row, [rows], of logits
// [rows, vocabulary]. The gradient is for `said` alone.
at::Tensor FusedDivergence(const at::Tensor& wanted, const at::Tensor& said, double temperature);

}  // namespace outrider
