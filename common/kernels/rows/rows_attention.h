// Attention of one row (NUMERICS.md, section 6), for up to kHeads heads of one KV head together, so
// that what is loaded and widened of a key serves them all.
//
// Registers hold a tile of Lanes::kTile accumulators: the products of a few keys with each head,
// then a few vectors of values weighted for each head. The accumulators of a tile of scores are
// summed lane by lane together (Lanes::StoreSums). Scores lie as [slot][head], so maxima and sums
// over slots are operations between whole vectors until one vector is left.
//
// With AVX-512 and 8 heads of 64 elements, operations a key and head: 4 fmas for the score and 4
// for the values, 1 to widen, 3 to sum the score's lanes, 1.5 for exp and what belongs to it; at
// two a cycle 6.8 cycles. 9.2 are measured (bench/rows_bench.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/attention.h"
#include "common/kernels/rows/rows_elementary.h"
#include "common/kernels/rows/rows_parts.h"
#include "common/kernels/unroll.h"

namespace outrider {
namespace {

// The positions of one chunk that are seen: slots begin..end-1. The other slots point at some row
// that is there, so that a tile may read them; what comes of it is dropped.
struct AttentionChunk {
  uint32_t begin;
  uint32_t end;
  const uint16_t* keys[kChunk];
  const uint16_t* values[kChunk];
};

// Walks the runs of a task, a chunk at a time.
class AttentionChunks {
 public:
  explicit AttentionChunks(const AttentionTask& task)
      : task_(task), run_(task.runs), position_(task.first_position) {}

  // False, and `chunk` as it was, after the last one.
  bool Next(AttentionChunk& chunk) {
    const KeyRun* const runs_end = task_.runs + task_.run_count;
    if (run_ == runs_end) return false;
    uint32_t slot = chunk.begin = position_ % kChunk;
    for (; run_ != runs_end && slot < kChunk; ++run_) {
      const uint16_t* key = run_->page + task_.keys_at + size_t{run_->slot} * task_.key_length;
      const uint16_t* value =
          run_->page + task_.values_at + size_t{run_->slot} * task_.value_length;
      for (uint32_t i = 0; i < run_->count; ++i, ++slot) {
        chunk.keys[slot] = key + size_t{i} * task_.key_length;
        chunk.values[slot] = value + size_t{i} * task_.value_length;
      }
    }
    chunk.end = slot;
    position_ += chunk.end - chunk.begin;
    for (uint32_t i = 0; i < chunk.begin; ++i) Absent(chunk, i);
    for (uint32_t i = chunk.end; i < kChunk; ++i) Absent(chunk, i);
    return true;
  }

 private:
  static void Absent(AttentionChunk& chunk, uint32_t slot) {
    chunk.keys[slot] = chunk.keys[chunk.begin];
    chunk.values[slot] = chunk.values[chunk.begin];
  }

  const AttentionTask& task_;
  const KeyRun* run_;
  uint32_t position_;
};

// A chunk ahead. Where keys come from memory, as they do when the weights of a whole model pass
// between two tokens, this takes 80 cycles a key of 128 where 93 to 134 were without; where they
// lie in the second-level cache it costs a twentieth.
inline void FetchRow(const uint16_t* row, uint32_t length) {
  for (uint32_t i = 0; i < length; i += 32) __builtin_prefetch(row + i);
}

template <class Lanes, int kHeads>
class Attention {
 public:
  // Heads first_head..first_head + head_count - 1 of the task; at most kHeads.
  Attention(const AttentionTask& task, uint32_t first_head, uint32_t head_count)
      : task_(task),
        outputs_(task.outputs + size_t{first_head} * task.value_length),
        sinks_(task.sinks == nullptr ? nullptr : task.sinks + first_head),
        head_count_(head_count) {
    for (uint32_t h = 0; h < kHeads; ++h) {
      const uint32_t head = first_head + (h < head_count ? h : 0);  // its results are dropped
      queries_[h] = task.queries + size_t{head} * task.key_length;
    }
  }

  void Run() {
    AttentionChunks chunks(task_);
    AttentionChunk buffers[2];
    AttentionChunk* chunk = &buffers[0];
    AttentionChunk* next = &buffers[1];
    chunks.Next(*chunk);
    for (bool is_first = true, is_last = false; !is_last; is_first = false) {
      is_last = !chunks.Next(*next);
      Score(*chunk, is_last ? *chunk : *next);
      Weigh(is_first);
      MergeValues(*chunk, is_last ? *chunk : *next, is_first);
      AttentionChunk* const done = chunk;
      chunk = next;
      next = done;
    }
    Divide();
  }

 private:
  static constexpr int kKeys = Lanes::kTile / kHeads;     // of a tile of scores
  static constexpr int kVectors = Lanes::kTile / kHeads;  // of a tile of values
  static constexpr uint32_t kScores = kChunk * kHeads;

  // scores_, with -infinity for absent slots. `next` is fetched meanwhile.
  void Score(const AttentionChunk& chunk, const AttentionChunk& next) {
    for (uint32_t slot = chunk.begin / kKeys * kKeys; slot < chunk.end; slot += kKeys) {
      for (int k = 0; k < kKeys; ++k) FetchRow(next.keys[slot + k], task_.key_length);
      ScoreTile(chunk.keys + slot, scores_ + slot * kHeads);
    }
    const Lanes scale = Lanes::Of(task_.scale);
    for (uint32_t i = 0; i < kScores; i += 16) {
      (Lanes::Load(scores_ + i) * scale).Store(scores_ + i);
    }
    if (task_.soft_cap > 0.0f) CapScores();
    for (uint32_t i = 0; i < chunk.begin * kHeads; ++i) scores_[i] = -__builtin_inff();
    for (uint32_t i = chunk.end * kHeads; i < kScores; ++i) scores_[i] = -__builtin_inff();
  }

  void CapScores() {
    const Lanes cap = Lanes::Of(task_.soft_cap);
    for (uint32_t i = 0; i < kScores; i += 16) {
      SoftCap(Lanes::Load(scores_ + i), cap).Store(scores_ + i);
    }
  }

  void ScoreTile(const uint16_t* const* keys, float* scores) {
    Lanes products[kKeys * kHeads];
    OUTRIDER_UNROLL for (int i = 0; i < kKeys * kHeads; ++i) products[i] = Lanes::Zero();
    OverRow<Lanes>(
        task_.key_length, [&](auto part) __attribute__((always_inline)) {
          Lanes key[kKeys];
          OUTRIDER_UNROLL for (int k = 0; k < kKeys; ++k) key[k] = part.LoadHalves(keys[k]);
          OUTRIDER_UNROLL for (int h = 0; h < kHeads; ++h) {
            const Lanes query = part.Load(queries_[h]);
            OUTRIDER_UNROLL for (int k = 0; k < kKeys; ++k) {
              products[k * kHeads + h] = Fma(query, key[k], products[k * kHeads + h]);
            }
          }
        });
    Lanes::StoreSums(products, scores);
  }

  // Scores become weights, and are merged into max_ and sum_; kept_ and taken_ are what the outputs
  // so far and this chunk's are to be multiplied by.
  void Weigh(bool is_first) {
    Lanes folded[kHeads];
    OUTRIDER_UNROLL for (int i = 0; i < kHeads; ++i) {
      folded[i] = Max(Lanes::Load(scores_ + 16 * i), Lanes::Load(scores_ + 16 * (i + kHeads)));
    }
    const Lanes max = OverSlots(folded, [](Lanes a, Lanes b) { return Max(a, b); });
    for (int i = 0; i < kHeads; ++i) {  // slots 16 apart share a lane of the sum
      const Lanes low = Exp(Lanes::Load(scores_ + 16 * i) - max);
      const Lanes high = Exp(Lanes::Load(scores_ + 16 * (i + kHeads)) - max);
      low.Store(scores_ + 16 * i);
      high.Store(scores_ + 16 * (i + kHeads));
      (low + high).Store(sums_ + 16 * i);
    }
    OUTRIDER_UNROLL for (int i = 0; i < kHeads; ++i) folded[i] = Lanes::Load(sums_ + 16 * i);
    const Lanes sum = OverSlots(folded, [](Lanes a, Lanes b) { return a + b; });
    if (is_first) {
      max_ = max;
      sum_ = sum;
      return;
    }
    const Lanes both = Max(max_, max);
    const Lanes kept = Exp(max_ - both), taken = Exp(max - both);
    max_ = both;
    sum_ = Fma(sum_, kept, sum * taken);
    kept.Store(kept_);
    taken.Store(taken_);
  }

  // Combines what lies [16 slots][head] over the slots, in the order of a sum's tree: slots 8
  // apart, then 4, 2, 1. Lane l of the result is head l mod kHeads'.
  template <class Combine>
  static Lanes OverSlots(Lanes (&x)[kHeads], Combine combine) {
    OverVectors<kHeads / 2>(x, combine);
    Lanes one = x[0];
    if constexpr (kHeads <= 8) one = combine(one, one.template Swapped<8>());
    if constexpr (kHeads <= 4) one = combine(one, one.template Swapped<4>());
    if constexpr (kHeads <= 2) one = combine(one, one.template Swapped<2>());
    if constexpr (kHeads <= 1) one = combine(one, one.template Swapped<1>());
    return one;
  }
  template <int kDistance, class Combine>
  static void OverVectors(Lanes (&x)[kHeads], Combine combine) {
    if constexpr (kDistance > 0) {
      OUTRIDER_UNROLL for (int i = 0; i < kDistance; ++i) x[i] = combine(x[i], x[i + kDistance]);
      OverVectors<kDistance / 2>(x, combine);
    }
  }

  void MergeValues(const AttentionChunk& chunk, const AttentionChunk& next, bool is_first) {
    for (uint32_t slot = chunk.begin; slot < chunk.end; ++slot) {
      FetchRow(next.values[slot], task_.value_length);
    }
    MergeTiles<kVectors>(chunk, 0, is_first);
  }

  // Elements from i on, in tiles of so many vectors and what is left in narrower ones.
  template <int kTileVectors>
  void MergeTiles(const AttentionChunk& chunk, uint32_t i, bool is_first) {
    constexpr uint32_t kElements = 16 * kTileVectors;
    const uint32_t length = task_.value_length;
    for (; i + kElements <= length; i += kElements) {
      MergeTile<kTileVectors>(chunk, WholePart<Lanes>{i}, is_first);
    }
    if constexpr (kTileVectors > 1) {
      if (i < length) MergeTiles<kTileVectors / 2>(chunk, i, is_first);
    } else {
      if (i < length) MergeTile<1>(chunk, LastPart<Lanes>{i, length - i}, is_first);
    }
  }

  // The chunk's weighted values, some vectors of them from `part` on, merged into the outputs.
  template <int kTileVectors, class Part>
  void MergeTile(const AttentionChunk& chunk, Part part, bool is_first) {
    Lanes out[kHeads][kTileVectors];
    OUTRIDER_UNROLL for (int h = 0; h < kHeads; ++h) {
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) out[h][v] = Lanes::Zero();
    }
    for (uint32_t slot = chunk.begin; slot < chunk.end; ++slot) {
      const float* weights = scores_ + slot * kHeads;
      const uint16_t* values = chunk.values[slot];
      Lanes value[kTileVectors];
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) {
        value[v] = part.LoadHalves(values + 16 * v);
      }
      OUTRIDER_UNROLL for (int h = 0; h < kHeads; ++h) {
        const Lanes weight = Lanes::Of(weights[h]);
        OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) {
          out[h][v] = Fma(weight, value[v], out[h][v]);
        }
      }
    }
    OUTRIDER_UNROLL for (int h = 0; h < kHeads; ++h) {
      if (static_cast<uint32_t>(h) == head_count_) return;
      float* row = outputs_ + h * task_.value_length;
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) {
        Lanes merged = out[h][v];
        if (!is_first) {
          merged = Fma(part.Load(row + 16 * v), Lanes::Of(kept_[h]), merged * Lanes::Of(taken_[h]));
        }
        part.Store(merged, row + 16 * v);
      }
    }
  }

  void Divide() {
    if (sinks_ == nullptr) {
      (Lanes::Of(1.0f) / sum_).Store(kept_);
    } else {
      DivideWithSinks().Store(kept_);
    }
    for (uint32_t h = 0; h < head_count_; ++h) {
      float* row = outputs_ + size_t{h} * task_.value_length;
      const Lanes r = Lanes::Of(kept_[h]);
      OverRow<Lanes>(task_.value_length, [&](auto part) { part.Store(part.Load(row) * r, row); });
    }
  }

  // What outputs are multiplied by where each head's sink has a weight too.
  Lanes DivideWithSinks() {
    alignas(64) float sinks[16];
    for (uint32_t lane = 0; lane < 16; ++lane) {
      const uint32_t h = lane % kHeads;
      sinks[lane] = sinks_[h < head_count_ ? h : 0];
    }
    const Lanes sink = Lanes::Load(sinks);
    const Lanes both = Max(max_, sink);
    const Lanes kept = Exp(max_ - both);
    return kept / Fma(sum_, kept, Exp(sink - both));
  }

  const AttentionTask& task_;
  const float* queries_[kHeads];
  float* const outputs_;  // the running outputs, too
  const float* const sinks_;
  const uint32_t head_count_;

  // Of all chunks so far; lane l is head l mod kHeads'.
  Lanes max_;
  Lanes sum_;
  alignas(64) float kept_[16];
  alignas(64) float taken_[16];

  // Of the chunk at hand
  alignas(64) float scores_[kScores];  // [slot][head]; then the weights
  alignas(64) float sums_[kScores / 2];
};

template <class Lanes, int kHeads>
void AttendHeads(const AttentionTask& task, uint32_t first_head, uint32_t head_count) {
  if constexpr (kHeads > 1) {
    if (head_count <= kHeads / 2) {
      return AttendHeads<Lanes, kHeads / 2>(task, first_head, head_count);
    }
  }
  Attention<Lanes, kHeads>(task, first_head, head_count).Run();
}

template <class Lanes>
void AttendRow(const AttentionTask& task) {
  constexpr uint32_t kHeads = Lanes::kHeads;
  for (uint32_t h = 0; h < task.head_count; h += kHeads) {
    const uint32_t left = task.head_count - h;
    AttendHeads<Lanes, kHeads>(task, h, left < kHeads ? left : kHeads);
  }
}

}  // namespace
}  // namespace outrider
