// The part of a layer in which a row hears of an encoder, between its mixer and its feed-forward
// part:
//
//   k, v = W_k e, W_v e                     of all rows e of the encoder; once a sequence
//   out  = W_o softmax(scale W_q x . k) v
//
// Nothing turns and nothing is hidden: whatever its row, a sequence sees all of its encoder's cells,
// in the encoder's order. Their keys and values are halves, and summed over as attention's are
// (kernels/NUMERICS.md).
//
// Memory:  taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/model/layers/attention_heads.h"
#include "common/model/layers/mixer.h"
#include "common/model/layers/row_math.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/sequence_memory.h"
#include "common/model/model_spec.h"

namespace outrider {

class CrossAttention {
 public:
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<CrossAttention>> Create(const ModelSpec& spec,
                                                                const MemoryLayout& cache,
                                                                RowMath& math,
                                                                uint32_t row_count_max);

  // The sequence's encoder cells from `first_cell` on become those of `states`
  // [row_count, embedding_length]. Their room has been reserved.
  void Write(uint32_t layer, const CrossAttentionWeights& weights, const RowBlock& states,
             uint32_t row_count, uint32_t first_cell, const SequenceMemory& memory);

  // x and out: [rows, embedding_length]; out may be x. Every sequence of the run has encoder cells.
  void Apply(const MixerRun& run, const RowBlock& x, const RowBlock& out);

 private:
  CrossAttention(const ModelSpec& spec, const MemoryLayout& cache, RowMath& math,
                 AttentionHeads heads)
      : spec_(spec), cache_(cache), math_(math), heads_(std::move(heads)) {}

  const ModelSpec& spec_;
  const MemoryLayout& cache_;
  RowMath& math_;
  const AttentionHeads heads_;
};

}  // namespace outrider
