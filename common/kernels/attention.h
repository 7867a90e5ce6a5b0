// Attention of one row over a paged cache of halves (NUMERICS.md, section 6).
//
// A node's keys are those of positions 0..p, wherever each is stored: committed positions in the
// pages of their sequence, drafted ancestors in scratch slots. They come as runs; a run never
// crosses a chunk boundary (a multiple of kChunk positions), so a page of the cache is one run, and
// the chunk that straddles committed prefix and sketch is several. Partial sums follow positions,
// never runs: how a chunk is stored does not touch a bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

inline constexpr uint32_t kChunk = 32;  // positions; also the slots of a cache page
inline constexpr uint32_t kHeadLengthMax = 512;

// `count` (at least one) consecutive positions in consecutive slots of one page.
struct KeyRun {
  const uint16_t* page;
  uint32_t slot;
  uint32_t count;
};

struct AttentionTask {
  const float* queries;  // [head_count, key_length]: the heads that share one KV head
  float* outputs;        // [head_count, value_length]
  uint32_t head_count;
  uint32_t key_length;  // 1..kHeadLengthMax, as is value_length
  uint32_t value_length;
  float scale;              // multiplies q.k
  uint32_t first_position;  // of the first run; what lies before is outside the window
  const KeyRun* runs;       // ascending positions without a gap
  uint32_t run_count;       // at least one: a node sees itself
  // Where, in halves from a run's page, slot 0 of this layer and KV head lies. Slots follow one
  // another, key_length (value_length) halves each.
  size_t keys_at;
  size_t values_at;
  float soft_cap = 0.0f;  // of scores; 0: none
  // [head_count]: scores that take part in the sum of weights and have no values; null: none
  const float* sinks = nullptr;
};

}  // namespace outrider
