// What attention to the rows above and attention to an encoder do alike (attention_mixer.h,
// cross_attention.h): rows of queries, keys and values, head after head; keys and values stored as
// halves; and for every row and key head, all the query heads that share it over the keys the row
// sees.
//
// Memory:  taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/kernels/attention.h"
#include "common/model/layers/row_math.h"
#include "common/model/layers/rows.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/page_memory.h"

namespace outrider {

// Floats of a row: those of the largest of some shapes (AttentionSpec, CrossAttentionSpec).
struct HeadLengths {
  size_t query = 0;
  size_t key = 0;
  size_t value = 0;
  size_t attended = 0;

  template <typename Shape>
  void Include(const Shape& shape) {
    query = std::max(query, size_t{shape.head_count} * shape.key_length);
    key = std::max(key, size_t{shape.kv_head_count} * shape.key_length);
    value = std::max(value, size_t{shape.kv_head_count} * shape.value_length);
    attended = std::max(attended, size_t{shape.head_count} * shape.value_length);
  }
};

// The keys a row sees, from its index `first` on.
struct SeenKeys {
  uint32_t first;
  std::span<const KeyRun> runs;
};

// What some models do to scores before they become weights.
struct ScoreRules {
  float soft_cap = 0.0f;              // 0: none
  std::span<const float> sinks = {};  // of every head, or none
};

class AttentionHeads {
 public:
  // `math` outlives it.
  static absl::StatusOr<AttentionHeads> Create(const RowMath& math, const HeadLengths& lengths,
                                               uint32_t row_count_max);

  const RowBlock& query() const { return query_; }
  const RowBlock& key() const { return key_; }
  const RowBlock& value() const { return value_; }
  const RowBlock& attended() const { return attended_; }

  // Key and value of row i are those of a cell from now on.
  void Store(size_t i, const HeadCells& cells, const CellAt& cell) const;

  // What the first rows of query() come to, in attended(); seen_by(i) says which keys row i sees.
  template <typename Shape, typename SeenBy>
  void Attend(const Shape& shape, const ScoreRules& rules, const HeadCells& cells, size_t row_count,
              const SeenBy& seen_by) const;

 private:
  explicit AttentionHeads(const RowMath& math) : math_(&math) {}

  const RowMath* math_;
  PageBuffer memory_;  // what the rows below are pieces of
  RowBlock query_, key_, value_, attended_;
};

template <typename Shape, typename SeenBy>
void AttentionHeads::Attend(const Shape& shape, const ScoreRules& rules, const HeadCells& cells,
                            size_t row_count, const SeenBy& seen_by) const {
  const uint32_t sharing = shape.head_count / shape.kv_head_count;
  math_->pool().ParallelFor(row_count * shape.kv_head_count, [&](size_t task) {
    const size_t i = task / shape.kv_head_count;
    const auto kv_head = static_cast<uint32_t>(task % shape.kv_head_count);
    const size_t first_head = size_t{kv_head} * sharing;
    const SeenKeys seen = seen_by(i);
    math_->kernels().attend({.queries = query_.row(i) + first_head * shape.key_length,
                             .outputs = attended_.row(i) + first_head * shape.value_length,
                             .head_count = sharing,
                             .key_length = shape.key_length,
                             .value_length = shape.value_length,
                             .scale = shape.scale,
                             .first_position = seen.first,
                             .runs = seen.runs.data(),
                             .run_count = static_cast<uint32_t>(seen.runs.size()),
                             .keys_at = cells.keys_at(kv_head),
                             .values_at = cells.values_at(kv_head),
                             .soft_cap = rules.soft_cap,
                             .sinks = rules.sinks.empty() ? nullptr : &rules.sinks[first_head]});
  });
}

}  // namespace outrider
