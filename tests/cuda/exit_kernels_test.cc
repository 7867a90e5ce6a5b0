// What a GPU computes of exits besides products, thread after thread: the bits of the host's.
#include "common/cuda/kernels/exit_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/cuda/block/emulated_block.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/weight_matrix.h"
#include "common/tokens/chooser.h"
#include "gtest/gtest.h"

namespace outrider::gpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 20001) / 1000.0f - 10.0f;
  return values;
}

TEST(ExitKernels, OutputsStandTogetherAsTheHostGathersThem) {
  constexpr std::pair<PanelKind, TensorType> kKinds[] = {
      {PanelKind::kF32, TensorType::kF32},   {PanelKind::kF16, TensorType::kF16},
      {PanelKind::kBf16, TensorType::kBF16}, {PanelKind::kQ8_0, TensorType::kQ8_0},
      {PanelKind::kQ4_0, TensorType::kQ4_0}, {PanelKind::kQ4_K, TensorType::kQ4_K},
      {PanelKind::kQ5_K, TensorType::kQ5_K}, {PanelKind::kQ6_K, TensorType::kQ6_K}};
  constexpr uint32_t kOutputs = 75;
  std::mt19937 random(3);
  for (const auto& [kind, type] : kKinds) {
    const bool is_plain = type == TensorType::kF32 || type == TensorType::kF16;
    for (const uint32_t inputs : {256u, 768u, is_plain ? 36u : 512u}) {
      std::vector<std::byte> panels(PackedBytes(type, kOutputs, inputs));
      for (std::byte& each : panels) each = static_cast<std::byte>(random());
      const WeightMatrix matrix = {type, WeightLayout::kPanels, kOutputs, inputs, panels.data()};
      for (const uint32_t count : {1u, 16u, 21u, 48u}) {
        std::vector<uint32_t> which(count);
        for (uint32_t& each : which) each = random() % kOutputs;
        which.back() = kOutputs - 1;
        std::vector<std::byte> expected(GatheredBytes(matrix, count)), actual(expected.size());
        GatherRows(matrix, which, expected);
        const GatherOutputs gather = {.from = panels.data(),
                                      .to = actual.data(),
                                      .panel_bytes = PanelBytes(type, inputs),
                                      .which = which.data(),
                                      .count = count,
                                      .lines = LinesOf(kind, inputs)};
        Emulate(gather, gather.grid_x(), PanelCount(count));
        ASSERT_EQ(std::memcmp(actual.data(), expected.data(), expected.size()), 0)
            << Info(type).name << ", " << inputs << " inputs, " << count << " of them";
      }
    }
  }
}

// h + r change, in the order that exit_scorer.cc adds squares up in.
float Adapted(const std::vector<float>& h, float change, size_t i, float epsilon) {
  double lanes[16] = {}, sum = 0;
  const size_t whole = h.size() / 16 * 16;
  for (size_t k = 0; k < whole; ++k) lanes[k % 16] += double{h[k]} * double{h[k]};
  for (const double lane : lanes) sum += lane;
  for (size_t k = whole; k < h.size(); ++k) sum += double{h[k]} * double{h[k]};
  const double mean = sum / static_cast<double>(h.size());
  return h[i] + static_cast<float>(std::sqrt(mean + double{epsilon})) * change;
}

TEST(ExitKernels, AnAdaptersEndIsInUnitsOfItsState) {
  const ScopedIeeeMode ieee;
  for (const uint32_t length : {4u, 16u, 36u, 300u, 2048u, 5000u}) {
    std::vector<float> states = RandomFloats(3 * length, length);
    for (uint32_t i = 0; i < length; ++i) states[length + i] *= 1e-22f;  // squares below all floats
    const std::vector<float> change = RandomFloats(2 * length, 7);
    const std::vector<uint32_t> which = {2, 1};
    std::vector<float> out(2 * length);
    Emulate(AdaptRows{.states = states.data(),
                      .which = which.data(),
                      .change = change.data(),
                      .out = out.data(),
                      .length = length,
                      .epsilon = 0.0f},
            2, 1);
    for (uint32_t row = 0; row < 2; ++row) {
      const auto first = states.begin() + which[row] * length;
      const std::vector<float> h(first, first + length);
      for (uint32_t i = 0; i < length; ++i) {
        ASSERT_EQ(out[row * length + i], Adapted(h, change[row * length + i], i, 0.0f))
            << length << ", row " << row << ", " << i;
      }
    }
  }
}

// --- candidates in order ---

// Tokens of the columns: so many frequent ones, and those of a round.
struct Columns {
  std::vector<uint32_t> tokens;
  uint32_t frequent_count;
};

// Every third token is frequent, or all of 512; of the others every second is one of the round.
Columns SomeColumns(uint32_t frequent_count, uint32_t round_count) {
  Columns columns = {.tokens = {}, .frequent_count = frequent_count};
  for (uint32_t i = 0; i < frequent_count; ++i) columns.tokens.push_back(3 * i + 1);
  for (uint32_t i = 0; i < round_count; ++i) columns.tokens.push_back(6 * i + 2);
  return columns;
}

struct RankTry {
  std::vector<float> logits;  // of all columns
  uint32_t frequent_count;    // that are candidates
  std::vector<uint32_t> own;  // columns
};

ExitRanking RankingOf(const Columns& columns, const RankTry& tried, bool are_ranked) {
  const ExitCandidates candidates = {.frequent_count = tried.frequent_count,
                                     .own_first = 2,
                                     .own_count = static_cast<uint32_t>(tried.own.size()),
                                     .are_ranked = are_ranked};
  std::vector<uint32_t> own = {UINT32_MAX, UINT32_MAX};  // another walk's
  own.insert(own.end(), tried.own.begin(), tried.own.end());
  ExitRanking ranking;
  std::memset(&ranking, 0xff, sizeof(ranking));
  Emulate(RankCandidates{.logits = tried.logits.data(),
                         .stride = tried.logits.size(),
                         .tokens = columns.tokens.empty() ? nullptr : columns.tokens.data(),
                         .candidates = &candidates,
                         .own_columns = own.data(),
                         .rankings = &ranking},
          1, 1);
  return ranking;
}

// What a greedy chooser makes of the same.
absl::StatusOr<std::vector<Ranked>> ChoosersRanking(const Columns& columns, const RankTry& tried) {
  std::vector<std::pair<TokenId, float>> known;
  const auto add = [&](uint32_t column) {
    const uint32_t token = columns.tokens.empty() ? column : columns.tokens[column];
    known.emplace_back(static_cast<TokenId>(token), tried.logits[column]);
  };
  for (uint32_t i = 0; i < tried.frequent_count; ++i) add(i);
  for (const uint32_t column : tried.own) add(column);
  if (known.empty()) return InvalidArgument("there are no candidates");
  std::ranges::sort(known, {}, &std::pair<TokenId, float>::first);
  std::vector<TokenId> tokens;
  std::vector<float> logits;
  for (const auto& [token, logit] : known) {
    tokens.push_back(token);
    logits.push_back(logit);
  }
  constexpr int32_t kVocabulary = 10000;
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create({}, kVocabulary));
  ChooserScratch scratch(kVocabulary);
  const TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 1});
  std::vector<Ranked> ranked;
  OUTRIDER_RETURN_IF_ERROR(
      chooser.RankAmong(tokens, logits, 0, {history, {}}, ExitRanking::kMax, scratch, ranked));
  return ranked;
}

void ExpectChoosers(const Columns& columns, const RankTry& tried, const std::string& what) {
  const ExitRanking actual = RankingOf(columns, tried, true);
  const absl::StatusOr<std::vector<Ranked>> expected = ChoosersRanking(columns, tried);
  if (!expected.ok()) {
    EXPECT_EQ(actual.count, 0u) << what;
    return;
  }
  ASSERT_EQ(actual.count, expected->size()) << what;
  for (uint32_t i = 0; i < actual.count; ++i) {
    EXPECT_EQ(static_cast<TokenId>(actual.tokens[i]), (*expected)[i].token) << what << ", " << i;
    EXPECT_EQ(actual.scores[i], (*expected)[i].score) << what << ", " << i;
  }
}

TEST(ExitKernels, CandidatesAreRankedAsAChooserDoes) {
  const ScopedIeeeMode ieee;
  std::mt19937 random(1);
  constexpr std::pair<uint32_t, uint32_t> kCounts[] = {{0, 40}, {40, 0},    {300, 5},
                                                       {7, 9},  {600, 300}, {1, 0}};
  for (const auto& [frequent_count, round_count] : kCounts) {
    const Columns columns = SomeColumns(frequent_count, round_count);
    const auto column_count = static_cast<uint32_t>(columns.tokens.size());
    for (uint32_t seed = 0; seed < 8; ++seed) {
      RankTry tried = {.logits = RandomFloats(column_count, seed),
                       .frequent_count = frequent_count - (seed % 2 == 1 ? frequent_count / 4 : 0),
                       .own = {}};
      for (uint32_t i = 0; i < round_count; ++i) {
        if (seed == 0 || random() % 2 == 0) tried.own.push_back(frequent_count + i);
      }
      // Ties: all of a kind, few kinds, and what cannot be among them.
      for (float& logit : tried.logits) {
        if (seed == 2) logit = 1.0f;
        if (seed == 3) logit = static_cast<float>(random() % 3);
        if (seed == 4 && random() % 2 == 0) logit = -Infinity();
        if (seed == 5) logit = random() % 2 == 0 ? 0.0f : -0.0f;
        if (seed == 6) logit = -Infinity();
      }
      ExpectChoosers(columns, tried,
                     std::to_string(column_count) + " columns, seed " + std::to_string(seed));
    }
  }
}

TEST(ExitKernels, WithoutColumnsOfTheirOwnAllTokensAreRanked) {
  const ScopedIeeeMode ieee;
  const RankTry all = {.logits = RandomFloats(777, 5), .frequent_count = 777, .own = {}};
  ExpectChoosers({.tokens = {}, .frequent_count = 777}, all, "all");
}

TEST(ExitKernels, WhatIsNoNumberRanksNothingWhereItIsACandidate) {
  const ScopedIeeeMode ieee;
  const Columns columns = SomeColumns(300, 20);
  for (const float bad : {kNan, -kNan, Infinity()}) {
    for (const uint32_t at : {0u, 255u, 256u, 299u, 300u, 301u, 319u}) {
      RankTry tried = {.logits = RandomFloats(320, 9), .frequent_count = 300, .own = {300, 319}};
      tried.logits[at] = bad;
      EXPECT_EQ(RankingOf(columns, tried, true).count, at == 301 ? 32u : 0u) << bad << " at " << at;
      ExpectChoosers(columns, tried, "column " + std::to_string(at));
    }
  }
}

TEST(ExitKernels, RowsOfOtherChoosersAreLeftAlone) {
  const Columns columns = SomeColumns(30, 2);
  const RankTry tried = {.logits = RandomFloats(32, 9), .frequent_count = 30, .own = {30}};
  EXPECT_EQ(RankingOf(columns, tried, false).count, 0u);
}

// Over sixteen lanes, frequent tokens first.
TEST(ExitKernels, TheLargestSoftmaxIsOfTheCandidates) {
  const ScopedIeeeMode ieee;
  const Columns columns = SomeColumns(50, 30);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    RankTry tried = {.logits = RandomFloats(80, seed), .frequent_count = 47, .own = {}};
    for (uint32_t i = seed; i < 30; i += 2) tried.own.push_back(50 + i);
    if (seed == 5) tried.logits[3] = tried.logits[60] = -Infinity();
    std::vector<float> terms(tried.logits.begin(), tried.logits.begin() + 47);
    for (const uint32_t column : tried.own) terms.push_back(tried.logits[column]);
    const float largest = std::ranges::max(terms);
    double plain = 0;
    float lanes[16] = {};
    for (size_t i = 0; i < terms.size(); ++i) {
      plain += std::exp(double{terms[i]} - double{largest});
      float weight = terms[i] - largest;
      KernelsFor(Isa::kScalar).rows.exp(&weight, 1, &weight);
      lanes[i % 16] += weight;
    }
    for (size_t width = 8; width > 0; width /= 2) {
      for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    }
    const ExitRanking ranking = RankingOf(columns, tried, true);
    EXPECT_EQ(ranking.largest_softmax, 1 / lanes[0]) << seed;
    EXPECT_NEAR(ranking.largest_softmax, 1 / plain, 1e-6) << seed;
  }
}

}  // namespace
}  // namespace outrider::gpu
