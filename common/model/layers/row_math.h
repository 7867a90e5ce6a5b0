// What layers do to all rows of a run alike, shared out over a pool: norms, products, sums.
//
// A row's result never depends on the others (kernels/NUMERICS.md).
//
// Memory:  what products need for `row_count_max` rows, taken in Create().
// Threads: one call at a time, in ScopedIeeeMode.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/kernels/products/products.h"
#include "common/model/layers/rows.h"
#include "common/model/model_spec.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

class RowMath {
 public:
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<RowMath>> Create(const ModelSpec& spec,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         uint32_t row_count_max);

  const RowKernels& kernels() const { return kernels_; }
  ThreadPool& pool() const { return pool_; }

  // Of rows as wide as the residual stream; out may be x.
  void Normalize(const Norm& norm, const float* x, float* out) const;
  void Normalize(const Norm& norm, const RowBlock& x, uint32_t row_count,
                 const RowBlock& out) const;

  // x += y, likewise.
  void Add(const RowBlock& x, const RowBlock& y, uint32_t row_count) const;

  // x *= scale, likewise; nothing for a scale of 1.
  void Scale(float scale, const RowBlock& x, uint32_t row_count) const;

  // Several matrices times the same rows, and their biases.
  struct Output {
    const Linear& linear;
    const RowBlock& rows;
  };
  void Multiply(const RowBlock& x, uint32_t row_count, uint32_t inputs,
                std::initializer_list<Output> outputs);
  void Multiply(const RowBlock& x, uint32_t row_count, const WeightMatrix& matrix,
                const RowBlock& out);

  // Matrices each of which takes rows of its own, and their biases. out: by row of x.
  struct Share {
    const Linear* linear;
    RowBlock out;
    RowRange rows;
  };
  void Multiply(const RowBlock& x, uint32_t row_count, uint32_t inputs,
                std::span<const Share> shares);

  template <typename Body>
  void ForEachRow(uint32_t row_count, const Body& body) const {
    ForEachRow(row_count, kSerialRows, body);
  }
  // Up to `serial_rows` by the calling thread alone.
  template <typename Body>
  void ForEachRow(uint32_t row_count, uint32_t serial_rows, const Body& body) const {
    if (row_count > serial_rows) return pool_.ParallelFor(row_count, body);
    for (uint32_t i = 0; i < row_count; ++i) body(i);
  }

  // So few rows are done sooner than other threads are told of them.
  static constexpr uint32_t kSerialRows = 2;

 private:
  RowMath(const ModelSpec& spec, const Kernels& kernels, ThreadPool& pool, Multiplier multiplier);

  std::vector<float> zeros_;  // the bias of a layer norm that has none

  const ModelSpec& spec_;
  const RowKernels& kernels_;
  ThreadPool& pool_;
  Multiplier multiplier_;
  std::vector<Product> products_;  // of the shares at hand
};

}  // namespace outrider
