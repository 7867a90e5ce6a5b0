// Attention of one row (NUMERICS.md, section 6), for up to sixteen heads of one KV head together: a
// chunk's keys, then its values, are widened once into rows of floats that stay in the first-level
// cache, and every head reads them there.
//
// Per key and head of 64 elements that leaves four vector fmas for the score, four for the values,
// and about three operations to sum the lanes of the score, since as many keys as the registers
// hold are summed together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/attention.h"
#include "common/kernels/rows_elementary.h"
#include "common/kernels/rows_parts.h"

namespace outrider {
namespace {

template <class Lanes>
class Attention {
 public:
  static constexpr uint32_t kHeads = 16;  // one per lane of the running maxima and sums

  // Heads first_head..first_head + head_count - 1 of the task; at most kHeads.
  Attention(const AttentionTask& task, uint32_t first_head, uint32_t head_count)
      : task_(task),
        queries_(task.queries + size_t{first_head} * task.key_length),
        outputs_(task.outputs + size_t{first_head} * task.value_length),
        head_count_(head_count) {}

  void Run() {
    const KeyRun* const end = task_.runs + task_.run_count;
    uint32_t position = task_.first_position;
    for (runs_end_ = task_.runs; runs_end_ != end; position += slots_end_ - slots_begin_) {
      is_first_ = runs_end_ == task_.runs;
      slots_begin_ = slots_end_ = position % kChunk;
      for (runs_begin_ = runs_end_; runs_end_ != end && slots_end_ < kChunk; ++runs_end_) {
        slots_end_ += runs_end_->count;
      }
      Widen(task_.keys_at, task_.key_length);
      Score();
      WeighScores();
      MergeSums();
      Widen(task_.values_at, task_.value_length);
      MergeValues();
    }
    Divide();
  }

 private:
  static constexpr uint32_t kBatch = Lanes::kBatch;

  static uint32_t Padded(uint32_t length) { return (length + 15) / 16 * 16; }

  // Slots of the batches of keys that hold any of this chunk's.
  uint32_t BatchesBegin() const { return slots_begin_ / kBatch * kBatch; }
  uint32_t BatchesEnd() const { return (slots_end_ + kBatch - 1) / kBatch * kBatch; }

  // The chunk's keys or values, each in the row of its slot, with zeros up to a whole vector. Rows
  // of absent slots that a batch would read are zeros.
  void Widen(size_t at, uint32_t length) {
    const uint32_t stride = Padded(length);
    uint32_t slot = slots_begin_;
    for (const KeyRun* run = runs_begin_; run != runs_end_; ++run) {
      const uint16_t* from = run->page + at + size_t{run->slot} * length;
      for (uint32_t i = 0; i < run->count; ++i, ++slot, from += length) {
        float* row = rows_ + size_t{slot} * stride;
        OverRow<Lanes>(length, [&](auto part) { part.LoadHalves(from).Store(row + part.at); });
      }
    }
    const uint32_t begin = BatchesBegin(), end = BatchesEnd();
    __builtin_memset(rows_ + size_t{begin} * stride, 0,
                     size_t{slots_begin_ - begin} * stride * sizeof(float));
    __builtin_memset(rows_ + size_t{slots_end_} * stride, 0,
                     size_t{end - slots_end_} * stride * sizeof(float));
  }

  // scores_[head][slot], -infinity for absent slots.
  void Score() {
    for (uint32_t h = 0; h < head_count_; ++h) {
      float* scores = scores_[h];
      for (uint32_t slot = BatchesBegin(); slot < BatchesEnd(); slot += kBatch) {
        ScoreBatch(queries_ + size_t{h} * task_.key_length, slot, scores + slot);
      }
      const Lanes scale = Lanes::Of(task_.scale);
      for (uint32_t i = 0; i < kChunk; i += 16) {
        (Lanes::Load(scores + i) * scale).Store(scores + i);
      }
      for (uint32_t i = 0; i < slots_begin_; ++i) scores[i] = -__builtin_inff();
      for (uint32_t i = slots_end_; i < kChunk; ++i) scores[i] = -__builtin_inff();
    }
  }

  void ScoreBatch(const float* query, uint32_t slot, float* scores) {
    const uint32_t stride = Padded(task_.key_length);
    const float* keys = rows_ + size_t{slot} * stride;
    Lanes products[kBatch];
    OUTRIDER_UNROLL for (uint32_t j = 0; j < kBatch; ++j) products[j] = Lanes::Zero();
    OverRow<Lanes>(
        task_.key_length, [&](auto part) __attribute__((always_inline)) {
          const Lanes q = part.Load(query);
          OUTRIDER_UNROLL for (uint32_t j = 0; j < kBatch; ++j) {
            products[j] = Fma(q, Lanes::Load(keys + j * stride + part.at), products[j]);
          }
        });
    Lanes::StoreSums(products, scores);
  }

  // Scores become weights; chunk_max_ and chunk_sum_ are filled.
  void WeighScores() {
    static_assert(kChunk == 32, "a head's scores are two vectors");
    for (uint32_t h = 0; h < head_count_; h += kBatch) {
      const uint32_t count = head_count_ - h < kBatch ? head_count_ - h : kBatch;
      Lanes lanes[kBatch];
      for (uint32_t j = 0; j < kBatch; ++j) lanes[j] = Lanes::Zero();
      for (uint32_t j = 0; j < count; ++j) {
        lanes[j] = Max(Lanes::Load(scores_[h + j]), Lanes::Load(scores_[h + j] + 16));
      }
      Lanes::StoreLargest(lanes, chunk_max_ + h);
      for (uint32_t j = 0; j < count; ++j) {
        float* scores = scores_[h + j];
        const Lanes max = Lanes::Of(chunk_max_[h + j]);
        const Lanes low = Exp(Lanes::Load(scores) - max);
        const Lanes high = Exp(Lanes::Load(scores + 16) - max);
        low.Store(scores);
        high.Store(scores + 16);
        lanes[j] = low + high;
      }
      Lanes::StoreSums(lanes, chunk_sum_ + h);
    }
  }

  // The running maxima and sums of all heads at once; kept_ and taken_ are what the outputs so far
  // and the chunk's are multiplied by.
  void MergeSums() {
    const Lanes theirs = Lanes::Load(chunk_max_), sums = Lanes::Load(chunk_sum_);
    if (is_first_) {
      theirs.Store(max_);
      sums.Store(sum_);
      return;
    }
    const Lanes ours = Lanes::Load(max_);
    const Lanes max = Max(ours, theirs);
    const Lanes kept = Exp(ours - max), taken = Exp(theirs - max);
    max.Store(max_);
    Fma(Lanes::Load(sum_), kept, sums * taken).Store(sum_);
    kept.Store(kept_);
    taken.Store(taken_);
  }

  void MergeValues() {
    uint32_t h = 0;
    for (; h + Lanes::kTileHeads <= head_count_; h += Lanes::kTileHeads) {
      MergeHeads<Lanes::kTileHeads>(h);
    }
    for (; h < head_count_; ++h) MergeHeads<1>(h);
  }

  template <int kTileHeads>
  void MergeHeads(uint32_t head) {
    constexpr uint32_t kTile = 16 * Lanes::kTileVectors;
    const uint32_t length = task_.value_length;
    uint32_t i = 0;
    for (; i + kTile <= length; i += kTile) {
      MergeTile<kTileHeads, Lanes::kTileVectors>(head, WholePart<Lanes>{i});
    }
    for (; i + 16 <= length; i += 16) MergeTile<kTileHeads, 1>(head, WholePart<Lanes>{i});
    if (i < length) MergeTile<kTileHeads, 1>(head, LastPart<Lanes>{i, length - i});
  }

  // The chunk's weighted values, for some heads and some vectors of elements from `part` on, and
  // their merging into the outputs.
  template <int kTileHeads, int kTileVectors, class Part>
  void MergeTile(uint32_t head, Part part) {
    const uint32_t stride = Padded(task_.value_length);
    Lanes out[kTileHeads][kTileVectors];
    OUTRIDER_UNROLL for (int h = 0; h < kTileHeads; ++h) {
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) out[h][v] = Lanes::Zero();
    }
    const float* values = rows_ + size_t{slots_begin_} * stride + part.at;
    for (uint32_t slot = slots_begin_; slot < slots_end_; ++slot, values += stride) {
      Lanes value[kTileVectors];
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) value[v] =
          Lanes::Load(values + 16 * v);
      OUTRIDER_UNROLL for (int h = 0; h < kTileHeads; ++h) {
        const Lanes weight = Lanes::Of(scores_[head + h][slot]);
        OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) {
          out[h][v] = Fma(weight, value[v], out[h][v]);
        }
      }
    }
    OUTRIDER_UNROLL for (int h = 0; h < kTileHeads; ++h) {
      float* row = outputs_ + size_t{head + h} * task_.value_length;
      OUTRIDER_UNROLL for (int v = 0; v < kTileVectors; ++v) {
        if (!is_first_) {
          out[h][v] = Fma(part.Load(row + 16 * v), Lanes::Of(kept_[head + h]),
                          out[h][v] * Lanes::Of(taken_[head + h]));
        }
        part.Store(out[h][v], row + 16 * v);
      }
    }
  }

  void Divide() {
    for (uint32_t h = 0; h < head_count_; ++h) {
      float* row = outputs_ + size_t{h} * task_.value_length;
      const Lanes r = Lanes::Of(1.0f / sum_[h]);
      OverRow<Lanes>(task_.value_length, [&](auto part) { part.Store(part.Load(row) * r, row); });
    }
  }

  const AttentionTask& task_;
  const float* const queries_;
  float* const outputs_;  // the running outputs, too
  const uint32_t head_count_;

  // The chunk at hand
  const KeyRun* runs_begin_;
  const KeyRun* runs_end_;
  uint32_t slots_begin_;
  uint32_t slots_end_;
  bool is_first_;

  alignas(64) float rows_[kChunk * kHeadLengthMax];
  alignas(64) float scores_[kHeads][kChunk];  // then weights
  alignas(64) float max_[kHeads];
  alignas(64) float sum_[kHeads];
  alignas(64) float chunk_max_[kHeads];
  alignas(64) float chunk_sum_[kHeads];
  alignas(64) float kept_[kHeads];
  alignas(64) float taken_[kHeads];
};

template <class Lanes>
void AttendRow(const AttentionTask& task) {
  for (uint32_t h = 0; h < task.head_count; h += Attention<Lanes>::kHeads) {
    const uint32_t left = task.head_count - h;
    Attention<Lanes>(task, h, left < Attention<Lanes>::kHeads ? left : Attention<Lanes>::kHeads)
        .Run();
  }
}

}  // namespace
}  // namespace outrider
