// Matrix products of a pass: activation rows times one or several weight matrices, shared out over a
// pool in one loop. Matrices take all of the rows or, as experts do, some that follow one another.
//
//   OUTRIDER_ASSIGN_OR_RETURN(Multiplier multiplier,
//                             Multiplier::Create(kernels, pool, row_count_max, inputs_max));
//   const Product products[] = {{&layer.q, q, q_width}, {&layer.k, k, kv_width}};
//   const FloatRows rows = {.values = x, .stride = width, .row_count = 16, .inputs = width};
//   multiplier.Multiply(rows, products);
//
// The rows are quantised once into whatever forms the matrices ask for. Of the chunks of panels each
// worker has a part that lies in one piece, since memory that is read in order comes sooner, and what
// is fetched beyond a chunk is the next one; then it helps others with theirs, since cores differ and
// neighbours interfere. None of this touches a bit of the results.
//
// Memory: all of it taken in Create(): the quantised rows, and per worker the panel that matrices
//         in GGUF rows are packed or decoded into.
// Threads: one call at a time; it runs loops of the pool.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/kernels/activations.h"
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

// [first, first + count)
struct RowRange {
  uint32_t first;
  uint32_t count;
};

// out[r * out_stride + n] = sum over k of weights[n, k] * x[r, k]
struct Product {
  const WeightMatrix* weights;
  float* out;
  size_t out_stride;
  std::optional<RowRange> rows = std::nullopt;  // the r that are wanted; none said: all
};

class Multiplier {
 public:
  // The kernels and the pool outlive it.
  static absl::StatusOr<Multiplier> Create(const Kernels& kernels, ThreadPool& pool,
                                           uint32_t row_count_max, uint32_t inputs_max);

  // Every matrix has x.inputs inputs. x and the outputs do not overlap.
  void Multiply(const FloatRows& x, std::span<const Product> products);

 private:
  // Rows in one int8 form.
  struct Quantised {
    AlignedBuffer quants;
    AlignedBuffer scales;
    AlignedBuffer sums;
  };

  // Some of a product's panels, as they are dealt.
  struct Chunk {
    const Product* product;
    uint32_t first_panel;
    uint32_t panel_count;
  };

  class Chunks;
  // One worker's, to begin with.
  struct alignas(64) Part {
    std::atomic<size_t> next = 0;  // of its chunks, the first that nobody has taken
  };

  Multiplier(const Kernels& kernels, ThreadPool& pool) : kernels_(&kernels), pool_(&pool) {}

  ActivationRows Quantise(const FloatRows& x, ActivationForm form);
  void DealChunks(size_t chunk_count);
  std::optional<size_t> TakeChunk(size_t chunk_count, uint32_t part);
  void RunChunk(const Chunk& chunk, const ActivationRows& x, uint32_t worker);
  void RunRowsChunk(const Chunk& chunk, const ActivationRows& x, uint32_t worker);

  const Kernels* kernels_;
  ThreadPool* pool_;
  uint32_t row_count_max_ = 0;
  uint32_t inputs_max_ = 0;
  std::array<Quantised, 2> quantised_;  // in blocks of 32, of 256
  AlignedBuffer scratch_;               // per worker: a panel of floats, then a row
  size_t scratch_stride_ = 0;           // bytes
  std::unique_ptr<Part[]> parts_;       // by worker
};

}  // namespace outrider
