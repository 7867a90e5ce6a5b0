// A layer with a recurrent state and a convolution, in plain floats and as few lines as it takes: a
// gated delta rule, as hybrids have in place of attention. No model file has one yet; it stands in
// the place of an attention layer of any model, and keeps what such layers keep.
//
//   u = W_in x                               q, k, v of all heads
//   c = silu(sum over the last 4 rows of w[i] * u)
//   S = decay S;  d = beta (v - S' k);  S = S + k d';  o = S' q                 by head
//   y = W_out o
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "common/model/layers/mixer.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/state_walk.h"

namespace outrider {

// A row's input, by head: k, v, decay and beta.
class DeltaRule final : public StateRule {
 public:
  static constexpr uint32_t kHeads = 2;
  static constexpr uint32_t kLength = 8;
  static constexpr uint32_t kState = kLength * kLength;
  static constexpr uint32_t kHeadInput = 2 * kLength + 2;

  void Advance(uint32_t head, std::span<float> state, std::span<const float> input) const override {
    const float* const k = input.data() + size_t{head} * kHeadInput;
    const float* const v = k + kLength;
    const float decay = v[kLength], beta = v[kLength + 1];
    for (float& s : state) s *= decay;
    for (uint32_t j = 0; j < kLength; ++j) {
      float recalled = 0;
      for (uint32_t i = 0; i < kLength; ++i) recalled += state[i * kLength + j] * k[i];
      const float d = beta * (v[j] - recalled);
      for (uint32_t i = 0; i < kLength; ++i) state[i * kLength + j] += k[i] * d;
    }
  }
};

class DeltaMixer final : public Mixer {
 public:
  // `embedding_length` is the model's.
  explicit DeltaMixer(uint32_t embedding_length)
      : embedding_length_(embedding_length),
        in_(kWidth * embedding_length),
        gates_(2 * kHeads * embedding_length),
        out_(embedding_length * kHeads * kLength),
        taps_(kKernel * kWidth) {
    std::mt19937 random(7);
    for (std::vector<float>* const weights : {&in_, &gates_, &out_, &taps_}) {
      for (float& w : *weights) w = static_cast<float>(random() % 2001) / 4000.0f - 0.25f;
    }
  }

  LayerKeeps Keeps() const {
    return {.recurrent = RecurrentState{kHeads, DeltaRule::kState, kInput, &rule_},
            .convolution = ConvolutionTail{kKernel, kWidth}};
  }

  void Begin(const Batch& batch) override {
    walks_.Plan(batch);
    queries_.resize(batch.row_count());
    mixed_.resize(batch.row_count());
    kept_.resize(walks_.kept_count_max() * DeltaRule::kState);
  }

  void Mix(const MixerRun& run, const RowBlock& x, const RowBlock& out) override {
    for (uint32_t i = 0; i < run.row_count(); ++i) PutIn(run, i, x.row(i));
    for (uint32_t i = 0; i < run.row_count(); ++i) Convolve(run, i);
    for (uint32_t part = 0; part < walks_.part_count(); ++part) {
      for (uint32_t head = 0; head < kHeads; ++head) Walk(run, part, head);
    }
    for (uint32_t i = 0; i < run.row_count(); ++i) {
      for (uint32_t n = 0; n < embedding_length_; ++n) {
        out.row(i)[n] = Dot(out_.data() + size_t{n} * kHeads * kLength, mixed_[run.rows[i]].data(),
                            kHeads * kLength);
      }
    }
  }

 private:
  static constexpr uint32_t kHeads = DeltaRule::kHeads;
  static constexpr uint32_t kLength = DeltaRule::kLength;
  static constexpr uint32_t kInput = kHeads * DeltaRule::kHeadInput;
  static constexpr uint32_t kKernel = 4;
  static constexpr uint32_t kWidth = 3 * kHeads * kLength;  // q, k, v, each by head
  using OfHeads = std::array<float, kHeads * kLength>;

  static float Dot(const float* a, const float* b, uint32_t count) {
    float sum = 0;
    for (uint32_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }
  static float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
  static void Normalize(float* x) {
    const float r = 1.0f / std::sqrt(Dot(x, x, kLength) + 1e-6f);
    for (uint32_t i = 0; i < kLength; ++i) x[i] *= r;
  }

  // What a row leaves for the convolutions below it, and the gates of its input.
  void PutIn(const MixerRun& run, uint32_t i, const float* x) const {
    const MemoryLayout& layout = run.batch.layout();
    const Batch::Row& row = run.batch.rows()[run.rows[i]];
    const CellAt& tail = row.cells[layout.convolution_group(run.layer)].own;
    float* const u = tail.As<float>(layout.convolution_at(run.layer), kWidth);
    for (uint32_t n = 0; n < kWidth; ++n) {
      u[n] = Dot(in_.data() + size_t{n} * embedding_length_, x, embedding_length_);
    }
    float* const input = InputOf(run, row);
    for (uint32_t head = 0; head < kHeads; ++head) {
      const auto gate = [&](uint32_t n) {
        return Sigmoid(Dot(gates_.data() + size_t{n} * embedding_length_, x, embedding_length_));
      };
      float* const of_head = input + size_t{head} * DeltaRule::kHeadInput;
      of_head[2 * kLength] = gate(2 * head);
      of_head[2 * kLength + 1] = gate(2 * head + 1);
    }
  }

  // Over the row's own and those of the rows above it, wherever they are: its query, and the keys
  // and values of its input.
  void Convolve(const MixerRun& run, uint32_t i) {
    const MemoryLayout& layout = run.batch.layout();
    const Batch::Row& row = run.batch.rows()[run.rows[i]];
    const Batch::Cells& cells = row.cells[layout.convolution_group(run.layer)];
    std::array<float, kWidth> c = {};
    uint32_t tap = kKernel - (row.index + 1 - cells.first_index);
    for (const KeyRun& keys : cells.keys) {
      const float* const slots =
          reinterpret_cast<const float*>(keys.page) + layout.convolution_at(run.layer);
      for (uint32_t n = 0; n < keys.count; ++n, ++tap) {
        for (uint32_t j = 0; j < kWidth; ++j) {
          c[j] += taps_[tap * kWidth + j] * slots[size_t{keys.slot + n} * kWidth + j];
        }
      }
    }
    for (float& value : c) value *= Sigmoid(value);
    float* const input = InputOf(run, row);
    for (uint32_t head = 0; head < kHeads; ++head) {
      float* const q = c.data() + head * kLength;
      float* const k = q + kHeads * kLength;
      const float* const v = k + kHeads * kLength;
      Normalize(q);
      Normalize(k);
      std::copy_n(q, kLength, queries_[run.rows[i]].begin() + head * kLength);
      std::copy_n(k, kLength, input + head * DeltaRule::kHeadInput);
      std::copy_n(v, kLength, input + head * DeltaRule::kHeadInput + kLength);
    }
  }

  void Walk(const MixerRun& run, uint32_t part, uint32_t head) {
    const MemoryLayout& layout = run.batch.layout();
    const float* const bases = run.batch.parts()[part].memory->Base(run.layer);
    std::array<float, DeltaRule::kState> state;
    walks_.Follow(
        part, bases == nullptr ? nullptr : bases + head * DeltaRule::kState, state, kept_,
        [&](std::span<float> at, const CellAt& cell) {
          rule_.Advance(head, at,
                        {cell.As<const float>(layout.input_at(run.layer), kInput), kInput});
        },
        [&](uint32_t row, std::span<const float> at) {
          for (uint32_t j = 0; j < kLength; ++j) {
            float sum = 0;
            for (uint32_t n = 0; n < kLength; ++n) {
              sum += at[n * kLength + j] * queries_[row][head * kLength + n];
            }
            mixed_[row][head * kLength + j] = sum;
          }
        });
  }

  static float* InputOf(const MixerRun& run, const Batch::Row& row) {
    const MemoryLayout& layout = run.batch.layout();
    return row.cells[*layout.input_group()].own.As<float>(layout.input_at(run.layer), kInput);
  }

  const uint32_t embedding_length_;
  const DeltaRule rule_;
  std::vector<float> in_, gates_, out_, taps_;
  StateWalks walks_;
  std::vector<OfHeads> queries_, mixed_;  // by batch row
  std::vector<float> kept_;
};

}  // namespace outrider
