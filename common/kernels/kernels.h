// The kernels of one instruction set, as a table of plain functions: resolved once (isa.h), passed
// by reference, so that tests and benchmarks can hold several side by side in one process.
//
//   const Kernels& kernels = KernelsFor(BestIsa());
//   kernels.rows.rms_norm(x, weight, epsilon, count, out);
//
// Every function gives the bits NUMERICS.md asks for, whichever table it is taken from. Pointers
// are raw and unaligned unless said otherwise; counts are elements. Nothing here allocates, locks
// or fails. Callers run in ScopedIeeeMode.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

enum class Isa;  // isa.h; declared only, so that files compiled for one instruction set see no code

// Part of the numerics id: the version of NUMERICS.md that last changed a rule all models take.
// Raise it whenever one does; NumericsVersionOf() (weight_matrix.h) is for those of one type.
inline constexpr uint32_t kNumericsVersion = 1;
// Of models with scales, soft caps, parallel layers, shared experts or longrope: whoever makes a
// spec says so (ModelSpec::numerics_version).
inline constexpr uint32_t kScalesNumericsVersion = 3;
// Of models whose queries grow with their position, likewise.
inline constexpr uint32_t kQueryGrowthNumericsVersion = 4;
// Of models whose heads each take a layer norm of their own, likewise.
inline constexpr uint32_t kHeadNormsNumericsVersion = 5;

struct ActivationRows;  // activations.h
struct AttentionTask;   // attention.h

// out[r * out_stride + n] = sum over k of w[n, k] * x[r, k], for all rows r of x and the 16 outputs
// n of each of `panel_count` panels that lie one after another from `panels`. (panel_layout.h says
// what a panel is.) `output_count` outputs are written, which ends in the last panel: what follows
// there is padding.
//
// The type of such a function, which also declares one: PanelProduct MultiplyF32;
using PanelProduct = void(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                          const ActivationRows& x, float* out, size_t out_stride);

// Products, by the type the weights are packed in. products_<isa>.cc
struct ProductKernels {
  PanelProduct* f32;
  PanelProduct* f16;
  PanelProduct* bf16;
  PanelProduct* q8_0;
  PanelProduct* q4_0;
  PanelProduct* q4_1;
  PanelProduct* q5_0;
  PanelProduct* q5_1;
  PanelProduct* iq4_nl;
  PanelProduct* mxfp4;
  PanelProduct* q4_k;
  PanelProduct* q5_k;
  PanelProduct* q6_k;
  PanelProduct* q2_k;
  PanelProduct* q3_k;
  PanelProduct* iq4_xs;
};

struct WeightedRow {
  const float* row;
  float weight;
};

// Everything that is done to one row of activations. rows_<isa>.cc
struct RowKernels {
  // One row to int8 in blocks of `block` (32 or 256; count is a multiple of it). scales: [count /
  // block]; sums: [count / 16], of 16 quants each.
  void (*quantize)(const float* x, uint32_t count, uint32_t block, int8_t* quants, float* scales,
                   int16_t* sums);

  // out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, uint32_t count, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon,
                     uint32_t count, float* out);

  // x += y
  void (*add)(float* x, const float* y, uint32_t count);
  // out = weight * row + weight * row + ..., of at least one term, in their order, without fma. out
  // may be a row.
  void (*weighted_sum)(const WeightedRow* terms, uint32_t term_count, uint32_t count, float* out);

  // Rotates the first 2 * pair_count elements of one head in place. cos, sin: [pair_count].
  void (*rope_interleaved)(float* head, const float* cos, const float* sin, uint32_t pair_count);
  void (*rope_halves)(float* head, const float* cos, const float* sin, uint32_t pair_count);

  // out = activation(gate) * up; out may be gate.
  void (*silu_gate)(const float* gate, const float* up, uint32_t count, float* out);
  void (*gelu_tanh_gate)(const float* gate, const float* up, uint32_t count, float* out);
  // out = activation(x); out may be x.
  void (*gelu_tanh)(const float* x, uint32_t count, float* out);
  // Both clamped before: gate * sigmoid(1.702 gate) * (up + 1).
  void (*clamped_silu_gate)(const float* gate, const float* up, uint32_t count, float* out);
  // out = cap * tanh(x / cap); out may be x.
  void (*soft_cap)(const float* x, float cap, uint32_t count, float* out);
  // out = exp(x); out may be x.
  void (*exp)(const float* x, uint32_t count, float* out);

  // Keys and values as the cache keeps them.
  void (*to_half)(const float* x, uint32_t count, uint16_t* out);

  // One query row, the heads that share a KV head, all its keys.
  void (*attend)(const AttentionTask& task);
};

struct Kernels {
  Isa isa;
  ProductKernels products;
  RowKernels rows;
};

// CHECKs that `isa` is among SupportedIsas().
const Kernels& KernelsFor(Isa isa);

}  // namespace outrider
