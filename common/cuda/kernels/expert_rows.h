// Layers with experts, but for their products (grouped_products.h): which experts a row goes to,
// which rows an expert gets, and what their answers come to. NUMERICS.md, section 7.
//
//   ChooseExperts   rows choose, each by its own logits
//   GroupRows       every expert's rows get places that follow one another
//   GatherRows      rows of floats go to their places; others do as they are quantised
//   SumExperts      a row's answers are added up, by its own ranking
//
// All of it is decided on the device, and no launch depends on what was chosen: a choice has a place
// of its own, so there are as many places as rows times the experts each of them goes to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/grouped_products.h"
#include "common/cuda/kernels/norm_rows.h"

namespace outrider::gpu {

struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// The used_count experts of largest logits, best first; of equal ones the lowest. All experts rank
// themselves at once: so many are better, or as good and before them. grid: rows
struct ChooseExperts {
  static constexpr uint32_t kThreads = 128;

  const float* logits;    // [rows, expert_count]
  ExpertChoice* choices;  // [rows, used_count], best first
  uint32_t expert_count;
  uint32_t used_count;
  bool renormalize;  // weights are divided by their sum

  OUTRIDER_HD size_t SharedBytes() const {
    return 3 * Rounded(expert_count) + Rounded(used_count) + Rounded(kSumLanes);
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const float* const row = logits + size_t{block.x()} * expert_count;
    ExpertChoice* const chosen = choices + size_t{block.x()} * used_count;
    const auto values = block.template Share<float>(expert_count);
    const auto keys = block.template Share<float>(expert_count);
    const auto weights = block.template Share<float>(expert_count);
    const auto best = block.template Share<uint32_t>(used_count);
    const auto lanes = block.template Share<float>(kSumLanes);
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) values.Set(t, e, row[e]);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) keys.Set(t, e, KeyOf(values, t, e));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        const uint32_t rank = RankOf(keys, t, e);
        if (rank < used_count) best.Set(t, rank, e);
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float largest = values.Get(t, best.Get(t, 0));
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        weights.Set(t, e, Exp(values.Get(t, e) - largest));
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      if (t >= kSumLanes) return;
      float sum = 0.0f;
      for (uint32_t e = t; e < expert_count; e += kSumLanes) sum = sum + weights.Get(t, e);
      lanes.Set(t, t, sum);
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      const float sum = FoldLanes(lanes, t);
      float chosen_sum = 0.0f;
      for (uint32_t c = 0; renormalize && c < used_count; ++c) {
        chosen_sum = chosen_sum + weights.Get(t, best.Get(t, c)) / sum;
      }
      for (uint32_t c = t; c < used_count; c += kThreads) {
        const float p = weights.Get(t, best.Get(t, c)) / sum;
        chosen[c] = {best.Get(t, c), renormalize ? p / chosen_sum : p};
      }
    });
  }

 private:
  static OUTRIDER_HD size_t Rounded(uint32_t count) {
    return (count * sizeof(float) + 15) / 16 * 16;
  }

  // The processor goes over those that are left, from the first of them, for a larger one: nothing
  // is larger than a NaN, nor a NaN than anything. So a NaN's turn comes when all before it have
  // been chosen, right behind the least of them.
  template <typename Shared>
  static OUTRIDER_HD float KeyOf(const Shared& values, uint32_t t, uint32_t e) {
    const float value = values.Get(t, e);
    if (value == value) return value;
    float least = Infinity();
    for (uint32_t before = 0; before < e; ++before) {
      if (values.Get(t, before) < least) least = values.Get(t, before);
    }
    return least;
  }

  template <typename Shared>
  OUTRIDER_HD uint32_t RankOf(const Shared& keys, uint32_t t, uint32_t e) const {
    const float own = keys.Get(t, e);
    uint32_t rank = 0;
    for (uint32_t other = 0; other < expert_count; ++other) {
      const float key = keys.Get(t, other);
      if (key > own || (key == own && other < e)) ++rank;
    }
    return rank;
  }
};

// Choices, in their order, get places expert by expert. One block, since an expert's first place is
// a matter of all choices: its threads are experts times parts of the choices, each of which looks
// for its expert in its part, first to count and then to hand out places. Experts that somebody has
// chosen come first among the groups, and both kinds by number: where there are fewer choices than
// experts, products need ask no more groups than that. grid: 1
struct GroupRows {
  static constexpr uint32_t kThreads = 1024;

  const ExpertChoice* choices;  // [choice_count]
  ExpertRows* groups;           // [expert_count]
  uint32_t* place_of;           // [choice_count]
  uint32_t* row_at;             // [choice_count], by place
  uint32_t choice_count;        // rows times used_count
  uint32_t used_count;
  uint32_t expert_count;

  OUTRIDER_HD size_t SharedBytes() const {
    return (size_t{parts()} + 2) * expert_count * sizeof(uint32_t) + 3 * 16;
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const auto counts = block.template Share<uint32_t>(size_t{parts()} * expert_count);
    const auto totals = block.template Share<uint32_t>(expert_count);
    const auto firsts = block.template Share<uint32_t>(expert_count);
    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < parts() * expert_count; i += kThreads) {
        uint32_t count = 0;
        ForEachChoice(i, [&](uint32_t) { ++count; });
        counts.Set(t, i, count);
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) {
        totals.Set(t, e, CountBefore(counts, t, e, parts()));
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t e = t; e < expert_count; e += kThreads) firsts.Set(t, e, Group(totals, t, e));
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < parts() * expert_count; i += kThreads) {
        const uint32_t expert = i % expert_count;
        uint32_t place = firsts.Get(t, expert) + CountBefore(counts, t, expert, i / expert_count);
        ForEachChoice(i, [&](uint32_t choice) {
          place_of[choice] = place;
          row_at[place++] = choice / used_count;
        });
      }
    });
  }

 private:
  OUTRIDER_HD uint32_t parts() const {
    return expert_count < kThreads ? kThreads / expert_count : 1;
  }
  OUTRIDER_HD uint32_t BeginOf(uint32_t part) const {
    return static_cast<uint32_t>(uint64_t{choice_count} * part / parts());
  }

  // use(choice), rising, for those of expert i % expert_count in part i / expert_count. What is used
  // may be stored, which the next load would wait for: several are loaded before.
  template <typename Use>
  OUTRIDER_HD void ForEachChoice(uint32_t i, const Use& use) const {
    constexpr uint32_t kBatch = 4;
    const uint32_t expert = i % expert_count, part = i / expert_count;
    const uint32_t end = BeginOf(part + 1);
    for (uint32_t first = BeginOf(part); first < end; first += kBatch) {
      uint32_t experts[kBatch];
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kBatch; ++j) {
        experts[j] = choices[first + j < end ? first + j : end - 1].expert;
      }
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kBatch; ++j) {
        if (first + j < end && experts[j] == expert) use(first + j);
      }
    }
  }

  // An expert's choices in the parts before one.
  template <typename Shared>
  OUTRIDER_HD uint32_t CountBefore(const Shared& counts, uint32_t t, uint32_t expert,
                                   uint32_t part) const {
    uint32_t count = 0;
    for (uint32_t p = 0; p < part; ++p) count += counts.Get(t, p * expert_count + expert);
    return count;
  }

  // Writes an expert's group; its first place.
  template <typename Shared>
  OUTRIDER_HD uint32_t Group(const Shared& totals, uint32_t t, uint32_t expert) const {
    uint32_t first = 0, chosen_before = 0, chosen = 0;
    for (uint32_t e = 0; e < expert_count; ++e) {
      const uint32_t total = totals.Get(t, e);
      if (e < expert) first += total;
      if (total == 0) continue;
      ++chosen;
      if (e < expert) ++chosen_before;
    }
    const uint32_t total = totals.Get(t, expert);
    const uint32_t group = total != 0 ? chosen_before : chosen + expert - chosen_before;
    groups[group] = {expert, first, total};
    return first;
  }
};

// Row i of out is row which[i]. grid: rows of out, length / 256 rounded up
struct GatherRows {
  static constexpr uint32_t kThreads = 256;

  const float* from;      // [any, length]
  const uint32_t* which;  // [rows]
  float* out;             // [rows, length]
  uint32_t length;

  OUTRIDER_HD uint32_t grid_y() const { return (length + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    block.Each([&](uint32_t t) {
      const uint32_t i = block.y() * kThreads + t;
      if (i < length)
        out[size_t{block.x()} * length + i] = from[size_t{which[block.x()]} * length + i];
    });
  }
};

// out = sum of g[j] * answer j, best first; and then what the expert that every row goes to has
// answered, by its gate. grid: rows, length / 256 rounded up
struct SumExperts {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kSegment = 32;

  const float* answers;         // [choices, length], by place
  const ExpertChoice* choices;  // [rows, used_count]
  const uint32_t* place_of;     // [rows, used_count]
  const float* shared_answers;  // [rows, length]; null: there is no such expert
  const float* shared_gate;     // [length], where there is
  const float* x;               // [rows, length]: what experts were asked
  float* out;                   // [rows, length]
  uint32_t used_count;
  uint32_t length;

  OUTRIDER_HD uint32_t grid_y() const { return (length + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const {
    return shared_answers == nullptr ? 0 : (segment_count() * sizeof(float) + 15) / 16 * 16;
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    auto shares = block.template Private<float>();
    if (shared_answers != nullptr) FindShare(block, row, shares);
    block.Each([&](uint32_t t) {
      const uint32_t i = block.y() * kThreads + t;
      if (i >= length) return;
      float sum = TermOf(row * used_count, i);
      for (uint32_t c = 1; c < used_count; ++c) sum = sum + TermOf(row * used_count + c, i);
      if (shared_answers != nullptr) sum = sum + shares[t] * shared_answers[row * length + i];
      out[row * length + i] = sum;
    });
  }

 private:
  OUTRIDER_HD uint32_t segment_count() const { return (length + kSegment - 1) / kSegment; }

  OUTRIDER_HD float TermOf(size_t choice, uint32_t i) const {
    return choices[choice].weight * answers[size_t{place_of[choice]} * length + i];
  }

  // How much the shared expert weighs: a product of one output (NUMERICS.md, section 4), which every
  // block of a row computes for itself.
  template <typename Block, typename Shares>
  OUTRIDER_HD void FindShare(Block& block, size_t row, Shares& shares) const {
    const auto parts = block.template Share<float>(segment_count());
    block.Each([&](uint32_t t) {
      for (uint32_t segment = t; segment < segment_count(); segment += kThreads) {
        const uint32_t begin = segment * kSegment;
        const uint32_t end = begin + kSegment < length ? begin + kSegment : length;
        float sum = 0.0f;
        for (uint32_t k = begin; k < end; ++k) sum = Fma(shared_gate[k], x[row * length + k], sum);
        parts.Set(t, segment, sum);
      }
    });
    block.Sync();
    block.Each([&](uint32_t t) {
      float z = 0.0f;
      for (uint32_t segment = 0; segment < segment_count(); ++segment) {
        z = z + parts.Get(t, segment);
      }
      shares[t] = 1.0f / (1.0f + Exp(-z));
    });
  }
};

}  // namespace outrider::gpu
