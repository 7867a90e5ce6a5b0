// What exits need besides products and norms (model/exits/exit_scorer.h): columns of the output
// matrix that stand together, the adapter's end, and candidates in order.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/best_of_rows.h"
#include "common/cuda/kernels/norm_rows.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/model/exits/exit_ranking.h"

namespace outrider::gpu {

// How much a panel has of either stream (formats/tensors/panel_layout.h): lines of a dword for each output,
// and then lines of a half. Panels of F16 and BF16 are nothing but the latter.
struct PanelLines {
  uint32_t of_dwords;
  uint32_t of_halves;
};

inline PanelLines LinesOf(PanelKind kind, uint32_t inputs) {
  const auto quantised = [&]<typename Type>(const Type&) -> PanelLines {
    return {inputs / Type::kBlock * Type::kLines, inputs / Type::kBlock * Type::kHalves};
  };
  switch (kind) {
    case PanelKind::kF32:
      return {inputs, 0};
    case PanelKind::kF16:
    case PanelKind::kBf16:
      return {0, inputs};
    case PanelKind::kQ8_0:
      return quantised(Q8_0Block{});
    case PanelKind::kQ4_0:
      return quantised(Q4_0Block{});
    case PanelKind::kQ4_K:
      return quantised(Q4_KBlock{});
    case PanelKind::kQ5_K:
      return quantised(Q5_KBlock{});
    case PanelKind::kQ6_K:
      return quantised(Q6_KBlock{});
  }
  return {0, 0};
}

// Some outputs of a matrix, side by side in panels of their own. An output has four bytes of each
// line of its panel, and memory gives 32 at a time: so outputs are gathered once, and then read
// whole by every product. What no output fills of the last panel stays as it is.
//
//   grid: grid_x(), panels that are gathered
struct GatherOutputs {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kLinesAtOnce = kThreads / kPanelOutputs;

  const std::byte* from;
  std::byte* to;
  size_t panel_bytes;     // of either
  const uint32_t* which;  // [count]: output i is output which[i]
  uint32_t count;
  PanelLines lines;

  OUTRIDER_HD uint32_t grid_x() const {
    return (lines.of_dwords + lines.of_halves + kLinesAtOnce - 1) / kLinesAtOnce;
  }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    block.Each([&](uint32_t t) {
      const uint32_t output = block.y() * kPanelOutputs + t % kPanelOutputs;
      if (output >= count) return;
      const uint32_t line = block.x() * kLinesAtOnce + t / kPanelOutputs;
      const std::byte* const read = from + which[output] / kPanelOutputs * panel_bytes;
      std::byte* const write = to + output / kPanelOutputs * panel_bytes;
      const uint32_t there = which[output] % kPanelOutputs, here = output % kPanelOutputs;
      if (line < lines.of_dwords) {
        const size_t at = size_t{line} * kLineBytes;
        Copy<uint32_t>(read + at, there, write + at, here);
      } else if (line < lines.of_dwords + lines.of_halves) {
        const size_t at =
            size_t{lines.of_dwords} * kLineBytes + size_t{line - lines.of_dwords} * kHalvesBytes;
        Copy<uint16_t>(read + at, there, write + at, here);
      }
    });
  }

 private:
  template <typename T>
  static OUTRIDER_HD void Copy(const std::byte* from, uint32_t there, std::byte* to,
                               uint32_t here) {
    reinterpret_cast<T*>(to)[here] = reinterpret_cast<const T*>(from)[there];
  }
};

// out = h + r change, r = sqrt(mean(h^2) + epsilon) by double precision, as the host's exits have it.
// grid: rows
struct AdaptRows {
  static constexpr uint32_t kThreads = 256;

  const float* states;    // [any, length]: h
  const uint32_t* which;  // [rows]: row i's h is row which[i] of the states
  const float* change;    // [rows, length]
  float* out;             // [rows, length]; may be change
  uint32_t length;
  float epsilon;

  OUTRIDER_HD size_t SharedBytes() const {
    return (length * sizeof(float) + 15) / 16 * 16 + kSumLanes * sizeof(double);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const float* const from = states + size_t{which[row]} * length;
    const auto h = block.template Share<float>(length);
    const auto lanes = block.template Share<double>(kSumLanes);
    block.Each([&](uint32_t t) {
      for (uint32_t first = t; first < length; first += Batch::kStride) {
        const Batch read = Batch::Read(first, length, from);
        Batch::ForEach(first, length, [&](uint32_t i, uint32_t j) { h.Set(t, i, read.values[j]); });
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      lanes.Set(t, t, SumOfLane<double>(h, t, Whole(), [](double sum, float each) {
                  return sum + Square(each);
                }));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      double sum = 0.0;
      for (uint32_t lane = 0; lane < kSumLanes; ++lane) sum = sum + lanes.Get(t, lane);
      for (uint32_t i = Whole(); i < length; ++i) sum = sum + Square(h.Get(t, i));
      const double mean = sum / static_cast<double>(length);
      const auto r = static_cast<float>(sqrt(mean + static_cast<double>(epsilon)));
      for (uint32_t first = t; first < length; first += Batch::kStride) {
        const Batch read = Batch::Read(first, length, change + row * length);
        const Batch here = Batch::Make(first, length, [&](uint32_t i) { return h.Get(t, i); });
        Batch::ForEach(first, length, [&](uint32_t i, uint32_t j) {
          out[row * length + i] = here.values[j] + r * read.values[j];
        });
      }
    });
  }

 private:
  using Batch = RowBatch<kThreads, 16>;

  // What lanes add up; the rest comes after them.
  OUTRIDER_HD uint32_t Whole() const { return length / kSumLanes * kSumLanes; }
  static OUTRIDER_HD double Square(float x) {
    const auto value = static_cast<double>(x);
    return value * value;
  }
};

// The first of each row's candidates, and the largest softmax among them: a row whose walk takes the
// largest logit needs no more. Each thread has the best that is not ranked yet of every 256th
// candidate; who has given one looks for his next.
//
//   grid: rows
struct RankCandidates {
  static constexpr uint32_t kThreads = 256;

  const float* logits;  // [rows, stride]
  size_t stride;
  const uint32_t* tokens;            // of the columns of logits; null: column n is token n
  const ExitCandidates* candidates;  // [rows]
  const uint32_t* own_columns;
  ExitRanking* rankings;  // [rows]; of rows that are not ranked, none

  OUTRIDER_HD size_t SharedBytes() const {
    return kThreads / kWarpLanes * sizeof(BestLogit) + kSumLanes * sizeof(float);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t row = block.x();
    ExitRanking& ranking = rankings[row];
    const auto of_warps = block.template Share<BestLogit>(kThreads / kWarpLanes);
    const auto lanes = block.template Share<float>(kSumLanes);
    auto mine = block.template Private<BestLogit>();
    auto best = block.template Private<BestLogit>();  // every thread's the same
    auto largest = block.template Private<float>();
    uint32_t count = 0;
    block.Each([&](uint32_t t) { mine[t] = BestBehind(row, t, nullptr); });
    for (; count < ExitRanking::kMax; ++count) {
      block.Each([&](uint32_t t) { best[t] = mine[t]; });
      FoldBest(block, best, of_warps, kThreads);
      block.Each([&](uint32_t t) {
        if (count == 0) largest[t] = best[t].value;
      });
      if (!best[0].sound || best[0].value == -Infinity()) break;
      block.Each([&](uint32_t t) {
        if (t == 0) {
          ranking.tokens[count] = best[t].token;
          ranking.scores[count] = best[t].value - largest[t];
        }
        if (mine[t].token == best[t].token) mine[t] = BestBehind(row, t, &best[t]);
      });
    }
    block.Each([&](uint32_t t) {
      if (t < kSumLanes) lanes.Set(t, t, count == 0 ? 0.0f : SumOfLane(row, t, largest[t]));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t != 0) return;
      ranking.count = count;
      ranking.largest_softmax = 1.0f / FoldLanes(lanes, t);
    });
  }

 private:
  OUTRIDER_HD uint32_t CountOf(uint32_t row) const {
    const ExitCandidates& of = candidates[row];
    return of.are_ranked ? of.frequent_count + of.own_count : 0;
  }
  OUTRIDER_HD uint32_t ColumnOf(uint32_t row, uint32_t i) const {
    const ExitCandidates& of = candidates[row];
    return i < of.frequent_count ? i : own_columns[of.own_first + i - of.frequent_count];
  }

  // Of a thread's candidates; `last`, if there is one, and all that come before it have been ranked.
  OUTRIDER_HD BestLogit BestBehind(uint32_t row, uint32_t t, const BestLogit* last) const {
    BestLogit best = {-Infinity(), UINT32_MAX, true};
    for (uint32_t i = t; i < CountOf(row); i += kThreads) {
      const uint32_t column = ColumnOf(row, i);
      const float value = logits[row * stride + column];
      const BestLogit one = {value, tokens == nullptr ? column : tokens[column],
                             value < Infinity()};
      if (last == nullptr || ComesBefore(*last, one)) best = BetterOf(best, one);
    }
    return best;
  }

  OUTRIDER_HD float SumOfLane(uint32_t row, uint32_t lane, float largest) const {
    float sum = 0.0f;
    for (uint32_t i = lane; i < CountOf(row); i += kSumLanes) {
      sum = sum + Exp(logits[row * stride + ColumnOf(row, i)] - largest);
    }
    return sum;
  }
};

}  // namespace outrider::gpu
