#include "common/model/layers/attention_mixer.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/kernels/attention.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<AttentionMixer>> AttentionMixer::Create(
    const ModelSpec& spec, std::span<const float> rope_divisors, const MemoryLayout& cache,
    RowMath& math, uint32_t row_count_max) {
  std::unique_ptr<AttentionMixer> mixer(new AttentionMixer(spec, cache, math));
  OUTRIDER_RETURN_IF_ERROR(mixer->MakeTurns(rope_divisors, row_count_max));
  OUTRIDER_RETURN_IF_ERROR(mixer->TakeMemory(row_count_max));
  return mixer;
}

absl::Status AttentionMixer::MakeTurns(std::span<const float> rope_divisors,
                                       uint32_t row_count_max) {
  for (const LayerSpec& layer : spec_.layers) {
    if (layer.attention() == nullptr) {
      turns_of_.push_back(0);
      continue;
    }
    const Rope& rope = layer.attention()->rope;
    const auto same = std::ranges::find(turns_, rope, &Turns::rope);
    turns_of_.push_back(static_cast<size_t>(same - turns_.begin()));
    if (same != turns_.end()) continue;
    absl::StatusOr<RopeTable> table = RopeTable::Create(rope, rope_divisors);
    if (!table.ok()) return Annotate(table.status(), spec_.name);
    Turns turns{.rope = rope, .table = *std::move(table), .memory = {}, .cosines = {}, .sines = {}};
    const uint32_t pairs = turns.table.pair_count();
    OUTRIDER_ASSIGN_OR_RETURN(turns.memory, AllocateRows({{turns.cosines, row_count_max, pairs},
                                                          {turns.sines, row_count_max, pairs}}));
    turns_.push_back(std::move(turns));
  }
  return absl::OkStatus();
}

absl::Status AttentionMixer::TakeMemory(uint32_t row_count_max) {
  size_t queries = 0, keys = 0, values = 0, attended = 0;
  for (const LayerSpec& layer : spec_.layers) {
    if (layer.attention() == nullptr) continue;
    const AttentionSpec& shape = *layer.attention();
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

void AttentionMixer::Begin(const Batch& batch) {
  for (const Turns& turns : turns_) {
    math_.ForEachRow(batch.row_count(), [&](size_t row) {
      turns.table.Turn(batch.rows()[row].position.at[0], turns.cosines.row(row),
                       turns.sines.row(row));
    });
  }
}

void AttentionMixer::Mix(const MixerRun& run, const RowBlock& x, const RowBlock& out) {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  const AttentionWeights& weights = run.weights.attention;
  if (shape.cells_of) {
    math_.Multiply(x, run.row_count(), spec_.embedding_length, {{weights.query, query_}});
  } else {
    math_.Multiply(x, run.row_count(), spec_.embedding_length,
                   {{weights.query, query_}, {weights.key, key_}, {weights.value, value_}});
  }
  math_.ForEachRow(run.row_count(), [&](size_t i) {
    PlaceQueries(run, i);
    if (!shape.cells_of) PlaceKeys(run, i);
  });
  // Now every row's keys are where the rows below it look for them.
  math_.pool().ParallelFor(run.rows.size() * shape.kv_head_count, [&](size_t task) {
    AttendHead(run, task / shape.kv_head_count, static_cast<uint32_t>(task % shape.kv_head_count));
  });
  math_.Multiply(attended_, run.row_count(), shape.head_count * shape.value_length,
                 {{weights.output, out}});
}

// Queries and keys turn by their row's position.
void AttentionMixer::PlaceQueries(const MixerRun& run, size_t i) {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  NormalizeHeads(run.weights.attention.query_norm, query_.row(i),
                 shape.head_count * shape.key_length);
  TurnHeads(turns_[turns_of_[run.layer]], run.rows[i], query_.row(i), shape.head_count,
            shape.key_length);
}

// Stores a row's keys and values, as halves.
void AttentionMixer::PlaceKeys(const MixerRun& run, size_t i) {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  const CellAt& own = run.batch.rows()[run.rows[i]].cells[cache_.attention_group(run.layer)].own;
  NormalizeHeads(run.weights.attention.key_norm, key_.row(i),
                 shape.kv_head_count * shape.key_length);
  TurnHeads(turns_[turns_of_[run.layer]], run.rows[i], key_.row(i), shape.kv_head_count,
            shape.key_length);
  for (uint32_t head = 0; head < shape.kv_head_count; ++head) {
    kernels_.to_half(key_.row(i) + size_t{head} * shape.key_length, shape.key_length,
                     own.As<uint16_t>(cache_.keys_at(run.layer, head), shape.key_length));
    kernels_.to_half(value_.row(i) + size_t{head} * shape.value_length, shape.value_length,
                     own.As<uint16_t>(cache_.values_at(run.layer, head), shape.value_length));
  }
}

// The query heads that share a key head look at all the keys their row sees.
void AttentionMixer::AttendHead(const MixerRun& run, size_t i, uint32_t kv_head) {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  const Batch::Cells& cells =
      run.batch.rows()[run.rows[i]].cells[cache_.attention_group(run.layer)];
  const uint32_t head_count = shape.head_count / shape.kv_head_count;
  const size_t first_head = size_t{kv_head} * head_count;
  kernels_.attend({.queries = query_.row(i) + first_head * shape.key_length,
                   .outputs = attended_.row(i) + first_head * shape.value_length,
                   .head_count = head_count,
                   .key_length = shape.key_length,
                   .value_length = shape.value_length,
                   .scale = shape.scale,
                   .first_position = cells.first_index,
                   .runs = cells.keys.data(),
                   .run_count = static_cast<uint32_t>(cells.keys.size()),
                   .keys_at = cache_.keys_at(run.layer, kv_head),
                   .values_at = cache_.values_at(run.layer, kv_head)});
}

// A weight as long as one head norms each by itself (Qwen 3), one as long as the row all of them
// together (OLMoE).
void AttentionMixer::NormalizeHeads(std::span<const float> weight, float* heads,
                                    uint32_t length) const {
  if (weight.empty()) return;
  const auto group = static_cast<uint32_t>(weight.size());
  for (uint32_t at = 0; at < length; at += group) {
    kernels_.rms_norm(heads + at, weight.data(), spec_.norm_epsilon, group, heads + at);
  }
}

void AttentionMixer::TurnHeads(const Turns& turns, size_t row, float* heads, uint32_t head_count,
                               uint32_t key_length) const {
  if (turns.rope.style == RopeStyle::kNone) return;
  const auto turn = turns.rope.style == RopeStyle::kInterleaved ? kernels_.rope_interleaved
                                                                : kernels_.rope_halves;
  for (uint32_t head = 0; head < head_count; ++head) {
    turn(heads + size_t{head} * key_length, turns.cosines.row(row), turns.sines.row(row),
         turns.table.pair_count());
  }
}

}  // namespace outrider
