#include "common/model/layers/cross_attention.h"

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<CrossAttention>> CrossAttention::Create(const ModelSpec& spec,
                                                                       const MemoryLayout& cache,
                                                                       RowMath& math,
                                                                       uint32_t row_count_max) {
  HeadLengths lengths;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.cross_attention) lengths.Include(*layer.cross_attention);
  }
  OUTRIDER_ASSIGN_OR_RETURN(AttentionHeads heads,
                            AttentionHeads::Create(math, lengths, row_count_max));
  return std::unique_ptr<CrossAttention>(new CrossAttention(spec, cache, math, std::move(heads)));
}

void CrossAttention::Write(uint32_t layer, const CrossAttentionWeights& weights,
                           const RowBlock& states, uint32_t row_count, uint32_t first_cell,
                           const SequenceMemory& memory) {
  math_.Multiply(states, row_count, spec_.embedding_length,
                 {{weights.key, heads_.key()}, {weights.value, heads_.value()}});
  math_.ForEachRow(row_count, [&](size_t i) {
    heads_.Store(i, cache_.encoder(layer), memory.AtEncoder(first_cell + static_cast<uint32_t>(i)));
  });
}

void CrossAttention::Apply(const MixerRun& run, const RowBlock& x, const RowBlock& out) {
  const CrossAttentionSpec& shape = *spec_.layers[run.layer].cross_attention;
  const CrossAttentionWeights& weights = run.weights.cross_attention;
  math_.Multiply(x, run.row_count(), spec_.embedding_length, {{weights.query, heads_.query()}});
  heads_.Attend(shape, {}, cache_.encoder(run.layer), run.rows.size(), [&](size_t i) {
    return SeenKeys{0, run.batch.rows()[run.rows[i]].encoder_keys};
  });
  math_.Multiply(heads_.attended(), run.row_count(), shape.head_count * shape.value_length,
                 {{weights.output, out}});
}

}  // namespace outrider
