#include "common/model/layers/attention_mixer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/portable_math.h"
#include "common/base/status.h"
#include "common/kernels/attention.h"

namespace outrider {
namespace {

constexpr std::array<float, kHeadLengthMax> kNoBias = {};  // of a head's layer norm

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionMixer>> AttentionMixer::Create(
    const ModelSpec& spec, std::span<const float> rope_divisors, const MemoryLayout& cache,
    RowMath& math, uint32_t row_count_max) {
  HeadLengths lengths;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention() != nullptr) lengths.Include(*layer.attention());
  }
  OUTRIDER_ASSIGN_OR_RETURN(AttentionHeads heads,
                            AttentionHeads::Create(math, lengths, row_count_max));
  std::unique_ptr<AttentionMixer> mixer(new AttentionMixer(spec, cache, math, std::move(heads)));
  OUTRIDER_RETURN_IF_ERROR(mixer->MakeTurns(rope_divisors, row_count_max));
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
    const bool divides =
        rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kLongRope;
    absl::StatusOr<RopeTable> table =
        RopeTable::Create(rope, divides ? rope_divisors : std::span<const float>());
    if (!table.ok()) return Annotate(table.status(), spec_.name);
    Turns turns{.rope = rope, .table = *std::move(table), .memory = {}, .cosines = {}, .sines = {}};
    const uint32_t pairs = turns.table.pair_count();
    OUTRIDER_ASSIGN_OR_RETURN(turns.memory, AllocateRows({{turns.cosines, row_count_max, pairs},
                                                          {turns.sines, row_count_max, pairs}}));
    turns_.push_back(std::move(turns));
  }
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
  const HeadCells& cells = cache_.attention(run.layer);
  const auto cells_of_row = [&](size_t i) -> const Batch::Cells& {
    return run.batch.rows()[run.rows[i]].cells[cells.group];
  };
  if (shape.cells_of) {
    math_.Multiply(x, run.row_count(), spec_.embedding_length, {{weights.query, heads_.query()}});
  } else {
    math_.Multiply(x, run.row_count(), spec_.embedding_length,
                   {{weights.query, heads_.query()},
                    {weights.key, heads_.key()},
                    {weights.value, heads_.value()}});
  }
  math_.ForEachRow(run.row_count(), [&](size_t i) {
    PlaceQueries(run, i);
    if (!shape.cells_of) PlaceKeys(run, i, cells_of_row(i).own);
  });
  // Now every row's keys are where the rows below it look for them.
  const ScoreRules rules = {.soft_cap = shape.soft_cap.value_or(0), .sinks = weights.sinks};
  heads_.Attend(shape, rules, cells, run.rows.size(), [&](size_t i) {
    return SeenKeys{cells_of_row(i).first_index, cells_of_row(i).keys};
  });
  math_.Multiply(heads_.attended(), run.row_count(), shape.head_count * shape.value_length,
                 {{weights.output, out}});
}

// Queries and keys turn by their row's position.
void AttentionMixer::PlaceQueries(const MixerRun& run, size_t i) const {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  float* const query = heads_.query().row(i);
  NormalizeHeads(shape, run.weights.attention.query_norm, shape.head_count, query);
  TurnHeads(turns_[turns_of_[run.layer]], run.rows[i], query, shape.head_count, shape.key_length);
  if (shape.query_growth) {
    Grow(*shape.query_growth, run.batch.rows()[run.rows[i]].position.at[0], query,
         shape.head_count * shape.key_length);
  }
}

// By 1 within the first step, which is all of most texts.
void AttentionMixer::Grow(const QueryGrowth& growth, uint32_t position, float* query,
                          uint32_t length) const {
  const uint32_t steps = position / growth.step;
  if (steps == 0) return;
  const double by = 1.0 + growth.scale * portable::Log(1.0 + steps);
  const WeightedRow grown = {query, static_cast<float>(by)};
  kernels_.weighted_sum(&grown, 1, length, query);
}

void AttentionMixer::PlaceKeys(const MixerRun& run, size_t i, const CellAt& own) const {
  const AttentionSpec& shape = *spec_.layers[run.layer].attention();
  float* const key = heads_.key().row(i);
  NormalizeHeads(shape, run.weights.attention.key_norm, shape.kv_head_count, key);
  TurnHeads(turns_[turns_of_[run.layer]], run.rows[i], key, shape.kv_head_count, shape.key_length);
  heads_.Store(i, cache_.attention(run.layer), own);
}

void AttentionMixer::NormalizeHeads(const AttentionSpec& shape, std::span<const float> weight,
                                    uint32_t head_count, float* heads) const {
  if (weight.empty()) return;
  const uint32_t length = head_count * shape.key_length;
  if (shape.head_norms == HeadNorms::kLayerEach) {
    for (uint32_t at = 0; at < length; at += shape.key_length) {
      kernels_.layer_norm(heads + at, weight.data() + at, kNoBias.data(), spec_.norm_epsilon,
                          shape.key_length, heads + at);
    }
    return;
  }
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
