#include "common/model/layers/cross_attention.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/kernels/attention.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<CrossAttention>> CrossAttention::Create(const ModelSpec& spec,
                                                                       const MemoryLayout& cache,
                                                                       RowMath& math,
                                                                       uint32_t row_count_max) {
  std::unique_ptr<CrossAttention> made(new CrossAttention(spec, cache, math));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(row_count_max));
  return made;
}

absl::Status CrossAttention::TakeMemory(uint32_t row_count_max) {
  size_t queries = 0, keys = 0, values = 0, attended = 0;
  for (const LayerSpec& layer : spec_.layers) {
    if (!layer.cross_attention) continue;
    const CrossAttentionSpec& shape = *layer.cross_attention;
    queries = std::max(queries, size_t{shape.head_count} * shape.key_length);
    keys = std::max(keys, size_t{shape.kv_head_count} * shape.key_length);
    values = std::max(values, size_t{shape.kv_head_count} * shape.value_length);
    attended = std::max(attended, size_t{shape.head_count} * shape.value_length);
  }
  OUTRIDER_ASSIGN_OR_RETURN(memory_, AllocateRows({{query_, row_count_max, queries},
                                                   {key_, row_count_max, keys},
                                                   {value_, row_count_max, values},
                                                   {attended_, row_count_max, attended}}));
  return absl::OkStatus();
}

void CrossAttention::Write(uint32_t layer, const CrossAttentionWeights& weights,
                           const RowBlock& states, uint32_t row_count, uint32_t first_cell,
                           const SequenceMemory& memory) {
  math_.Multiply(states, row_count, spec_.embedding_length,
                 {{weights.key, key_}, {weights.value, value_}});
  math_.ForEachRow(row_count, [&](size_t i) {
    PlaceCell(layer, i, memory.AtEncoder(first_cell + static_cast<uint32_t>(i)));
  });
}

void CrossAttention::PlaceCell(uint32_t layer, size_t i, const CellAt& cell) const {
  const CrossAttentionSpec& shape = ShapeOf(layer);
  for (uint32_t head = 0; head < shape.kv_head_count; ++head) {
    kernels_.to_half(key_.row(i) + size_t{head} * shape.key_length, shape.key_length,
                     cell.As<uint16_t>(cache_.encoder_keys_at(layer, head), shape.key_length));
    kernels_.to_half(value_.row(i) + size_t{head} * shape.value_length, shape.value_length,
                     cell.As<uint16_t>(cache_.encoder_values_at(layer, head), shape.value_length));
  }
}

void CrossAttention::Apply(const MixerRun& run, const RowBlock& x, const RowBlock& out) {
  const CrossAttentionSpec& shape = ShapeOf(run.layer);
  const CrossAttentionWeights& weights = run.weights.cross_attention;
  math_.Multiply(x, run.row_count(), spec_.embedding_length, {{weights.query, query_}});
  math_.pool().ParallelFor(run.rows.size() * shape.kv_head_count, [&](size_t task) {
    AttendHead(run, task / shape.kv_head_count, static_cast<uint32_t>(task % shape.kv_head_count));
  });
  math_.Multiply(attended_, run.row_count(), shape.head_count * shape.value_length,
                 {{weights.output, out}});
}

// The query heads that share a key head look at all of the encoder's keys.
void CrossAttention::AttendHead(const MixerRun& run, size_t i, uint32_t kv_head) const {
  const CrossAttentionSpec& shape = ShapeOf(run.layer);
  const std::span<const KeyRun> keys = run.batch.rows()[run.rows[i]].encoder_keys;
  const uint32_t head_count = shape.head_count / shape.kv_head_count;
  const size_t first_head = size_t{kv_head} * head_count;
  kernels_.attend({.queries = query_.row(i) + first_head * shape.key_length,
                   .outputs = attended_.row(i) + first_head * shape.value_length,
                   .head_count = head_count,
                   .key_length = shape.key_length,
                   .value_length = shape.value_length,
                   .scale = shape.scale,
                   .first_position = 0,
                   .runs = keys.data(),
                   .run_count = static_cast<uint32_t>(keys.size()),
                   .keys_at = cache_.encoder_keys_at(run.layer, kv_head),
                   .values_at = cache_.encoder_values_at(run.layer, kv_head)});
}

}  // namespace outrider
