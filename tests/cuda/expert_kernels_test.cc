// The kernels of experts, thread after thread: who is asked and how much of it counts are the
// contract's, every choice has a place, and products by tiles are those of each expert alone.
#include "common/cuda/kernels/expert_rows.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/model/layers/expert_feed_forward.h"
#include "gtest/gtest.h"
#include "tests/cuda/rows_and_bits.h"

namespace outrider::gpu {
namespace {

struct Routed {
  std::vector<uint32_t> chosen;
  std::vector<float> weights;
};

Routed Route(const RouterSpec& router, const std::vector<float>& logits) {
  const auto row_count = static_cast<uint32_t>(logits.size()) / router.expert_count;
  Routed routed = {std::vector<uint32_t>(size_t{row_count} * router.used_count, UINT32_MAX),
                   std::vector<float>(size_t{row_count} * router.used_count)};
  Emulate(RouteRows{logits.data(), routed.chosen.data(), routed.weights.data(), router.expert_count,
                    router.used_count, router.renormalize},
          row_count, 1);
  return routed;
}

TEST(ExpertKernels, RowsGoWhereTheContractSays) {
  const ScopedIeeeMode ieee;
  for (const auto& [experts, used] : {std::pair{5u, 2u}, {20u, 8u}, {128u, 8u}, {300u, 10u}}) {
    constexpr uint32_t kRows = 6;
    std::vector<float> logits = Numbers(experts).Gaussians(size_t{kRows} * experts, 3.0f);
    for (uint32_t e = 0; e < experts; ++e) logits[e] = static_cast<float>(e % 3);  // ties
    std::fill_n(logits.begin() + experts, experts, -0.0f);                         // nothing else
    logits[experts + 3] = 0.0f;
    logits[2 * experts] = -Infinity();
    logits[3 * experts + 1] = 1e30f;
    for (const bool renormalize : {false, true}) {
      const RouterSpec router = {experts, used, renormalize};
      const Routed actual = Route(router, logits);
      for (uint32_t row = 0; row < kRows; ++row) {
        std::vector<float> of_row(logits.begin() + row * experts,
                                  logits.begin() + (row + 1) * experts);
        std::vector<ExpertChoice> expected(used);
        ChooseExperts(router, Reference(), of_row.data(), expected);
        std::vector<float> weights, expected_weights;
        for (uint32_t j = 0; j < used; ++j) {
          ASSERT_EQ(actual.chosen[row * used + j], expected[j].expert)
              << experts << " experts, row " << row << ", the one of rank " << j;
          weights.push_back(actual.weights[row * used + j]);
          expected_weights.push_back(expected[j].weight);
        }
        ExpectBits(weights, expected_weights, "weights of row " + std::to_string(row));
      }
    }
  }
}

// It is asked all the same, of experts that are there, each once.
TEST(ExpertKernels, ARowThatIsNoNumberGoesSomewhereAndWeighsNothing) {
  const RouterSpec router = {.expert_count = 6, .used_count = 3, .renormalize = true};
  for (size_t at = 0; at < 6; ++at) {
    std::vector<float> logits = {1, 2, 3, 4, 5, 6};
    logits[at] = std::numeric_limits<float>::quiet_NaN();
    Routed routed = Route(router, logits);
    for (const float weight : routed.weights) EXPECT_NE(weight, weight);
    std::ranges::sort(routed.chosen);
    EXPECT_EQ(std::ranges::adjacent_find(routed.chosen), routed.chosen.end());
    EXPECT_LT(routed.chosen.back(), 6u);
  }
}

struct Grouped {
  std::vector<uint32_t> place_of, row_at;
  std::vector<ExpertTile> tiles;
};

Grouped Group(const std::vector<uint32_t>& chosen, uint32_t used_count, uint32_t expert_count) {
  const auto choices = static_cast<uint32_t>(chosen.size());
  const uint32_t tile_count = GroupChoices::TileCount(choices, expert_count);
  Grouped made = {std::vector<uint32_t>(choices, UINT32_MAX),
                  std::vector<uint32_t>(choices, UINT32_MAX),
                  std::vector<ExpertTile>(tile_count, {UINT32_MAX, 7, 9})};
  Emulate(GroupChoices{chosen.data(), made.place_of.data(), made.row_at.data(), made.tiles.data(),
                       choices, used_count, expert_count, tile_count},
          1, 1);
  return made;
}

// `used_count` different ones for each row.
std::vector<uint32_t> RandomChoices(uint32_t row_count, uint32_t used_count, uint32_t expert_count,
                                    uint64_t seed) {
  Numbers numbers(seed);
  std::vector<uint32_t> chosen;
  for (uint32_t row = 0; row < row_count; ++row) {
    const uint32_t first = numbers.Below(expert_count);
    for (uint32_t j = 0; j < used_count; ++j) chosen.push_back((first + j * j) % expert_count);
  }
  return chosen;
}

// Rows of a tile are one expert's, by rising row, and every choice is in one tile.
TEST(ExpertKernels, EveryChoiceHasAPlaceAmongThoseOfItsExpert) {
  for (const uint32_t rows : {1u, 3u, 16u, 65u}) {
    for (const uint32_t experts : {11u, 37u, 300u}) {
      const std::vector<uint32_t> chosen = RandomChoices(rows, 3, experts, rows + experts);
      const Grouped made = Group(chosen, 3, experts);
      std::vector<uint32_t> choice_at(chosen.size(), UINT32_MAX);
      for (uint32_t c = 0; c < chosen.size(); ++c) {
        ASSERT_LT(made.place_of[c], chosen.size());
        ASSERT_EQ(choice_at[made.place_of[c]], UINT32_MAX) << "two choices in one place";
        choice_at[made.place_of[c]] = c;
        ASSERT_EQ(made.row_at[made.place_of[c]], c / 3);
      }
      uint32_t next = 0;
      bool is_over = false;
      for (const ExpertTile& tile : made.tiles) {
        if (tile.first_row == tile.end_row) is_over = true;
        if (is_over) {
          ASSERT_EQ(tile.first_row, tile.end_row) << "those without rows are the last";
          continue;
        }
        ASSERT_EQ(tile.first_row, next);
        ASSERT_LE(tile.end_row, tile.first_row + kTileRows);
        for (; next < tile.end_row; ++next) {
          ASSERT_EQ(chosen[choice_at[next]], tile.expert);
          if (next > tile.first_row) {
            ASSERT_LT(made.row_at[next - 1], made.row_at[next]);
          }
        }
      }
      ASSERT_EQ(next, chosen.size());
    }
  }
}

TEST(ExpertKernels, ThereAreNeverMoreTilesThanAreAskedFor) {
  EXPECT_EQ(GroupChoices::TileCount(8, 128), 8u);  // one row: each expert its own
  EXPECT_EQ(GroupChoices::TileCount(2048, 128), 368u);
  // Every expert leaves a tile of one row.
  std::vector<uint32_t> chosen;
  for (uint32_t e = 0; e < 5; ++e) chosen.insert(chosen.end(), 9, e);
  const Grouped made = Group(chosen, 1, 5);
  EXPECT_EQ(made.tiles.size(), 10u);
  EXPECT_LT(made.tiles.back().first_row, made.tiles.back().end_row);
}

std::vector<float> EmulatedProduct(Product product, PanelKind kind, size_t size) {
  std::vector<float> out(size, -1.0f);
  product.out = out.data();
  UseProduct(product, kind, [](const auto& body, uint32_t x, uint32_t y) { Emulate(body, x, y); });
  return out;
}

// Three experts of 21 outputs, with biases; rows of tiles that are full, hold one, and none.
TEST(ExpertKernels, ProductsByTilesAreThoseOfEachExpertAlone) {
  const ScopedIeeeMode ieee;
  struct Kind {
    const char* name;
    PanelKind kind;
  };
  constexpr Kind kKinds[] = {{"F32", PanelKind::kF32},   {"F16", PanelKind::kF16},
                             {"BF16", PanelKind::kBf16}, {"Q8_0", PanelKind::kQ8_0},
                             {"Q4_0", PanelKind::kQ4_0}, {"Q4_K", PanelKind::kQ4_K},
                             {"Q5_K", PanelKind::kQ5_K}, {"Q6_K", PanelKind::kQ6_K}};
  constexpr uint32_t kExperts = 3, kOutputs = 21, kInputs = 512, kRows = 20;
  const std::vector<ExpertTile> tiles = {{2, 0, 8}, {2, 8, 9}, {0, 9, 16}, {1, 16, 20}, {0, 0, 0}};
  const std::vector<float> bias = Outlying(kExperts * kOutputs, 5);
  for (const Kind& kind : kKinds) {
    const PanelType& type =
        *std::ranges::find(kPanelTypes, std::string(kind.name),
                           [](const PanelType& of) { return std::string(of.name); });
    const size_t panel_bytes = type.Size(kInputs), expert_bytes = 3 * panel_bytes;
    Bytes panels = MakePanels(type, 3 * 3, kInputs, Weights::kRandom, 7);
    RowsOf rows(kRows, kInputs, type.block(), Rows::kRandom, 9);
    Product product = {.panels = panels.data(),
                       .panel_bytes = panel_bytes,
                       .outputs = kOutputs,
                       .inputs = kInputs,
                       .bias = bias.data(),
                       .x = rows.First(kRows),
                       .out = nullptr,
                       .out_stride = kOutputs,
                       .tiles = tiles.data(),
                       .tile_count = static_cast<uint32_t>(tiles.size()),
                       .expert_bytes = expert_bytes};
    const std::vector<float> actual = EmulatedProduct(product, kind.kind, kRows * kOutputs);
    product.tiles = nullptr;
    std::vector<float> expected(actual.size());
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      product.panels = panels.data() + expert * expert_bytes;
      product.bias = bias.data() + expert * kOutputs;
      const std::vector<float> all = EmulatedProduct(product, kind.kind, kRows * kOutputs);
      for (const ExpertTile& tile : tiles) {
        if (tile.expert != expert) continue;
        std::copy(all.begin() + tile.first_row * kOutputs, all.begin() + tile.end_row * kOutputs,
                  expected.begin() + tile.first_row * kOutputs);
      }
    }
    ExpectBits(actual, expected, kind.name);
  }
}

TEST(ExpertKernels, RowsAreGathered) {
  const std::vector<float> from = Outlying(4 * 300, 1);
  const std::vector<uint32_t> which = {3, 0, 0, 2, 3};
  std::vector<float> actual(which.size() * 300), expected;
  for (const uint32_t row : which) {
    expected.insert(expected.end(), from.begin() + row * 300, from.begin() + (row + 1) * 300);
  }
  Emulate(GatherRows{from.data(), which.data(), actual.data(), 300}, 5, 1);
  ExpectBits(actual, expected, "rows");
}

TEST(ExpertKernels, WhatExpertsComeToIsTheContracts) {
  const ScopedIeeeMode ieee;
  constexpr uint32_t kRows = 3, kUsed = 4, kLength = 300;
  const std::vector<float> answers = Outlying(kRows * kUsed * kLength, 1);
  const std::vector<float> weights = Numbers(2).Gaussians(kRows * kUsed, 1.0f);
  const std::vector<float> shared = Outlying(kRows * kLength, 3);
  const std::vector<float> shared_gate = {-90.0f, 0.7f, 95.0f};
  const std::vector<uint32_t> place_of = {11, 2, 5, 0, 1, 3, 4, 6, 10, 9, 8, 7};
  for (const bool has_shared : {false, true}) {
    std::vector<float> actual(kRows * kLength), expected(actual.size());
    for (uint32_t row = 0; row < kRows; ++row) {
      std::vector<WeightedRow> terms;
      for (uint32_t j = row * kUsed; j < (row + 1) * kUsed; ++j) {
        terms.push_back({answers.data() + place_of[j] * kLength, weights[j]});
      }
      float* const out = expected.data() + row * kLength;
      Reference().weighted_sum(terms.data(), kUsed, kLength, out);
      if (!has_shared) continue;
      float share = -shared_gate[row];
      Reference().exp(&share, 1, &share);
      const WeightedRow term = {shared.data() + row * kLength, 1.0f / (1.0f + share)};
      std::vector<float> scaled(kLength);
      Reference().weighted_sum(&term, 1, kLength, scaled.data());
      Reference().add(out, scaled.data(), kLength);
    }
    const SumExperts body = {.answers = answers.data(),
                             .place_of = place_of.data(),
                             .weights = weights.data(),
                             .shared = has_shared ? shared.data() : nullptr,
                             .shared_gate = shared_gate.data(),
                             .out = actual.data(),
                             .length = kLength,
                             .used_count = kUsed};
    Emulate(body, kRows, body.grid_y());
    ExpectBits(actual, expected, has_shared ? "with a shared one" : "sums");
  }
}

}  // namespace
}  // namespace outrider::gpu
