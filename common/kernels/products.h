// Matrix products of a pass: the same activation rows times one or several weight matrices, shared
// out over a pool.
//
//   OUTRIDER_ASSIGN_OR_RETURN(Multiplier multiplier, Multiplier::Create(kernels, pool,
//   row_count_max, inputs_max)); multiplier.Multiply({.values = x, .stride = width, .row_count =
//   16, .inputs = width},
//                       std::array<Product, 3>{{{&layer.q, q, q_width}, {&layer.k, k, kv_width},
//                       {&layer.v, v, kv_width}}});
//
// The rows are quantised once into whatever forms the matrices ask for; panels are dealt to workers
// as they come free, since cores differ and neighbours interfere. Neither touches a bit of the
// results.
//
// Memory: all of it taken in Create(): the quantised rows, and per worker the panel that matrices
// in GGUF rows are
//         packed or decoded into.
// Threads: one call at a time; it runs loops of the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {

// Row r starts at values + r * stride.
struct FloatRows {
  const float* values;
  size_t stride;
  uint32_t row_count;
  uint32_t inputs;
};

// out[r * out_stride + n] = sum over k of weights[n, k] * x[r, k]
struct Product {
  const WeightMatrix* weights;
  float* out;
  size_t out_stride;
};

class Multiplier {
 public:
  // The kernels and the pool outlive it.
  static absl::StatusOr<Multiplier> Create(const Kernels& kernels, ThreadPool& pool,
                                           uint32_t row_count_max, uint32_t inputs_max);

  // Every matrix has x.inputs inputs. x and the outputs do not overlap.
  void Multiply(const FloatRows& x, std::span<const Product> products);
};

}  // namespace outrider
