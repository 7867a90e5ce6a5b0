// The forward pass: rows of tokens in, hidden states and logits out.
//
//   OUTRIDER_RETURN_IF_ERROR(transformer.Forward(batch, nullptr));
//   OUTRIDER_ASSIGN_OR_RETURN(const Lease<HeadWeights> head, weights.Acquire(HeadKey{}));
//   const LogitRows logits = transformer.Project(std::array{0u, 5u}, *head);     // of rows 0 and 5
//
//   hidden = scaled embedding of the token (+ embedding of its position)
//   for every layer:   hidden += mixer(norm(hidden))              layers/mixer.h
//                      hidden += cross_attention(norm(hidden))    layers/cross_attention.h
//                      hidden += feed_forward(norm(hidden))       layers/feed_forward.h, or
//                                                                 layers/expert_feed_forward.h
//   logits = soft cap(scaled head(norm(hidden)))
//
// or in a parallel layer what both come to of the same normed rows. What is added may be scaled.
//
// One pass for every architecture (model_spec.h); what a model does not have is absent data. What a
// row comes to depends on its token, its position and what the rows above it have left in memory,
// and on nothing else: not on the other rows, nor on threads, chunks or instruction sets
// (kernels/NUMERICS.md).
//
// Memory:  all of it taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
// Errors:  those of the weight store. Rows that turn NaN are not an error here: whoever chooses a
//          token from their logits refuses them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/layer_observer.h"
#include "common/model/layers/attention_mixer.h"
#include "common/model/layers/cross_attention.h"
#include "common/model/layers/expert_feed_forward.h"
#include "common/model/layers/feed_forward.h"
#include "common/model/layers/mixer.h"
#include "common/model/layers/row_math.h"
#include "common/model/layers/rows.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/model_spec.h"
#include "common/model/weights/weight_store.h"

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
      const ModelSpec& spec, WeightStore& weights, const MemoryLayout& cache,
      const Kernels& kernels, ThreadPool& pool, uint32_t row_count_max,
      uint32_t logit_row_count_max);

  // What an encoder says to a sequence's rows, [rows, embedding_length]: cells have been reserved
  // for as many. Before the first of those rows, for a model whose layers hear an encoder.
  absl::Status WriteEncoder(std::span<const float> states, const SequenceMemory& memory);

  // Computes the rows of `batch` and writes their keys and values. `observer` may be null.
  absl::Status Forward(const Batch& batch, LayerObserver* observer);

  // Of the last Forward(): the batch rows that went all the way, ascending. Without an observer
  // that drops some, row i is batch row i.
  std::span<const uint32_t> rows() const { return active_; }
  // The hidden state of rows()[i], before the final norm.
  std::span<const float> hidden(size_t i) const { return {hidden_.row(i), spec_.embedding_length}; }

  // Final norm and output matrix for some of rows(), given by index. The logits stay until the next
  // call and may be written to.
  LogitRows Project(std::span<const uint32_t> indices, const HeadWeights& head);
  uint32_t logit_row_count_max() const { return logit_row_count_max_; }
  uint32_t row_count_max() const { return row_count_max_; }

 private:
  Transformer(const ModelSpec& spec, WeightStore& weights, uint32_t row_count_max,
              uint32_t logit_row_count_max);

  void FindMixers();
  absl::Status Begin(const Batch& batch);
  absl::Status Embed(const Batch& batch);
  // The rows still in the run.
  uint32_t row_count() const { return static_cast<uint32_t>(active_.size()); }
  absl::Status FeedForwardOf(uint32_t layer, const LayerWeights& weights, const RowBlock& x);
  const RowBlock& Enter(const PartNorms& norms);
  void Leave(const PartNorms& norms);
  absl::Status PassParallel(const MixerRun& run, const RowBlock& normed);
  void Cap(const LogitRows& logits) const;
  void Observe(LayerObserver& observer, uint32_t layer);

  const ModelSpec& spec_;
  WeightStore& weights_;
  const uint32_t row_count_max_;
  const uint32_t logit_row_count_max_;

  std::unique_ptr<RowMath> math_;
  std::unique_ptr<AttentionMixer> attention_;
  std::vector<Mixer*> mixers_;        // by layer
  std::vector<Mixer*> mixers_alone_;  // each once
  std::unique_ptr<CrossAttention> cross_attention_;
  std::unique_ptr<FeedForward> feed_forward_;
  std::unique_ptr<ExpertFeedForward> experts_;

  PageBuffer memory_;  // what the rows below are pieces of
  RowBlock hidden_;    // [rows, embedding]: the residual stream
  RowBlock normed_;    // [rows, embedding]: what enters a part of a layer, and what leaves it
  RowBlock beside_;  // [rows, embedding]: what another part makes of the same; if any layer has one
  RowBlock logits_;

  // Of the present or last run.
  const Batch* batch_ = nullptr;
  std::vector<uint32_t> active_;  // batch rows still in it; row i of the above is active_[i]
  std::vector<TableRow> looked_up_;
  std::vector<uint8_t> gone_;        // by batch row
  std::unique_ptr<bool[]> dropped_;  // by active row: what the observer asks for
};

}  // namespace outrider
