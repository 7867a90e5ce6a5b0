// The forward pass: rows of tokens in, hidden states and logits out.
//
//   OUTRIDER_RETURN_IF_ERROR(transformer.Forward(batch, nullptr));
//   const LogitRows logits = transformer.Project(std::array{0u, 5u});     // of rows 0 and 5
//
// One pass for every architecture (model_spec.h); what a model does not have is absent data. What a
// row comes to depends on its token, its position and the keys it sees, and on nothing else: not on
// the other rows, nor on threads, chunks or instruction sets (kernels/NUMERICS.md). Keys and values
// of all rows are written to the slots the batch gives, a layer at a time, before that layer looks
// at any.
//
// Memory:  all of it taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
// Errors:  those of the weight store. Rows that turn NaN are not an error here: whoever chooses a
//          token from their logits refuses them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/kernels/products.h"
#include "common/kernels/rope_table.h"
#include "common/model/batch.h"
#include "common/model/kv_cache.h"
#include "common/model/layer_observer.h"
#include "common/model/model_spec.h"
#include "common/model/weight_store.h"

namespace outrider {

// Row i starts at data + i * stride.
struct LogitRows {
  float* data;
  size_t stride;
  uint32_t row_count;
  uint32_t length;

  std::span<float> row(uint32_t i) const { return {data + i * stride, length}; }
};

class Transformer {
 public:
  // All that is passed outlives it. Project() takes at most `logit_row_count_max` rows at a time.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(
      const ModelSpec& spec, WeightStore& weights, const KvPageLayout& cache,
      const Kernels& kernels, ThreadPool& pool, uint32_t row_count_max,
      uint32_t logit_row_count_max);

  // Computes the rows of `batch` and writes their keys and values. `observer` may be null.
  absl::Status Forward(const Batch& batch, LayerObserver* observer);

  // Of the last Forward(): the batch rows that went all the way, ascending. Without an observer
  // that drops some, row i is batch row i.
  std::span<const uint32_t> rows() const { return active_; }
  // The hidden state of rows()[i], before the final norm.
  std::span<const float> hidden(size_t i) const { return {hidden_.row(i), spec_.embedding_length}; }

  // Final norm and output matrix for some of rows(), given by index. The logits stay until the next
  // call and may be written to.
  LogitRows Project(std::span<const uint32_t> indices);
  uint32_t logit_row_count_max() const { return logit_row_count_max_; }
  uint32_t row_count_max() const { return row_count_max_; }

 private:
  // Rows of floats, each on a cache line of its own.
  struct Rows {
    float* data = nullptr;
    size_t stride = 0;

    float* row(size_t i) const { return data + i * stride; }
  };
  struct Output {
    const Linear& linear;
    const Rows& rows;
  };

  Transformer(const ModelSpec& spec, WeightStore& weights, const KvPageLayout& cache,
              const Kernels& kernels, ThreadPool& pool, RopeTable rope, Multiplier multiplier,
              uint32_t row_count_max, uint32_t logit_row_count_max);
  absl::Status TakeMemory();

  void Begin(const Batch& batch);
  void Attention(const LayerWeights& weights, uint32_t layer);
  void FeedForward(const LayerWeights& weights);
  void PlaceKeys(const LayerWeights& weights, uint32_t layer, size_t i);
  void AttendHead(uint32_t layer, size_t i, uint32_t kv_head);
  void Observe(LayerObserver& observer, uint32_t layer);

  void Normalize(const Norm& norm, const float* x, float* out) const;
  void NormalizeRows(const Norm& norm, const Rows& x, const Rows& out);
  void Rotate(float* heads, uint32_t head_count, size_t row) const;
  void Gate(size_t i) const;
  void Multiply(const Rows& x, uint32_t inputs, std::initializer_list<Output> outputs);
  void AddRows(const Rows& x, const Rows& y);
  template <typename Body>
  void ForEachRow(const Body& body);

  const ModelSpec& spec_;
  WeightStore& weights_;
  const KvPageLayout& cache_;
  const RowKernels& kernels_;
  ThreadPool& pool_;
  const RopeTable rope_;
  Multiplier multiplier_;
  const uint32_t row_count_max_;
  const uint32_t logit_row_count_max_;

  PageBuffer memory_;  // what the rows below are pieces of
  Rows hidden_;        // [rows, embedding]: the residual stream
  Rows normed_;        // [rows, embedding]: what enters a product, or leaves one
  Rows query_, key_, value_, attended_;
  Rows gate_, up_;
  Rows cosines_, sines_;  // by batch row
  Rows logits_;

  // Of the present or last run.
  const Batch* batch_ = nullptr;
  std::vector<uint32_t> active_;     // batch rows still in it; row i of the above is active_[i]
  std::vector<uint8_t> gone_;        // by batch row
  std::unique_ptr<bool[]> dropped_;  // by active row: what the observer asks for
};

}  // namespace outrider
