// Attention: accurate, a matter of positions alone, and honest about what is not a number.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/formats/tensors/half.h"
#include "tests/kernels/paged_keys.h"
#include "tests/kernels/row_tables_here.h"

namespace outrider {
namespace {

constexpr double u = 0x1p-24;

class AttentionTest : public testing::TestWithParam<NamedRows> {
 protected:
  std::vector<float> Attend(const AttentionCase& from, CutInto cut = CutInto::kWholeChunks,
                            uint64_t seed = 1) const {
    const StoredKeys stored(from, cut, seed);
    std::vector<float> outputs(size_t{from.head_count} * from.value_length, 12345.0f);
    GetParam().rows->attend(stored.Task(outputs.data()));
    return outputs;
  }
  void ExpectAccuracy(float soft_cap, bool has_sinks) const;
};

INSTANTIATE_TEST_SUITE_P(Tables, AttentionTest, testing::ValuesIn(RowTablesHere()),
                         [](const auto& named) { return std::string(named.param.name); });

// One head in double precision; `tolerance` bounds what the contract's roundings add up to.
struct Exact {
  std::vector<double> out;
  std::vector<double> tolerance;
};

Exact ExactHead(const AttentionCase& from, uint32_t head, double scale) {
  std::vector<double> scores(from.count);
  double score_error = 0, smallest = 0, largest = -1e300;
  for (uint32_t p = 0; p < from.count; ++p) {
    double sum = 0, magnitudes = 0;
    for (uint32_t i = 0; i < from.key_length; ++i) {
      const double product = double{from.queries[head * from.key_length + i]} *
                             HalfToFloat(from.keys[p * from.key_length + i]);
      sum += product;
      magnitudes += std::abs(product);
    }
    scores[p] = sum * scale;
    // A rounding per element of a lane, four in the tree, one for the scale.
    score_error = std::max(score_error, (from.key_length / 16 + 6) * u * magnitudes * scale);
    if (from.soft_cap > 0) {  // never steeper than 1; its own roundings on top
      scores[p] = double{from.soft_cap} * std::tanh(scores[p] / double{from.soft_cap});
      score_error += std::abs(scores[p]) * 10 * u;
    }
    largest = std::max(largest, scores[p]);
    smallest = std::min(smallest, scores[p]);
  }
  const bool has_sink = !from.sinks.empty();
  const double sink = has_sink ? double{from.sinks[head]} : largest;
  largest = std::max(largest, sink);
  smallest = std::min(smallest, sink);
  // A weight is off by its score's error and the maximum's, by the rounding of their difference, by
  // exp, and by the factors that merging later chunks multiplies it with.
  const double chunks = from.count / kChunk + 2;
  const double weight_error =
      2 * score_error + (largest - smallest) * u + 3 * u + chunks * (3 + 1 + 1) * u;
  Exact exact = {std::vector<double>(from.value_length), std::vector<double>(from.value_length)};
  for (uint32_t i = 0; i < from.value_length; ++i) {
    double sum = 0, magnitudes = 0;
    double weights = has_sink ? std::exp(sink - largest) : 0;
    for (uint32_t p = 0; p < from.count; ++p) {
      const double weight = std::exp(scores[p] - largest);
      const double value = HalfToFloat(from.values[p * from.value_length + i]);
      weights += weight;
      sum += weight * value;
      magnitudes += weight * std::abs(value);
    }
    exact.out[i] = sum / weights;
    // The weights stand above and below the fraction; 32 fmas above, 6 additions below.
    exact.tolerance[i] = magnitudes / weights * (2 * weight_error + (kChunk + 6 + 2) * u);
  }
  return exact;
}

TEST_P(AttentionTest, IsAccurate) {
  for (const auto& [soft_cap, has_sinks] :
       {std::pair{0.0f, false}, {2.0f, false}, {0.0f, true}, {2.0f, true}}) {
    ExpectAccuracy(soft_cap, has_sinks);
  }
}

void AttentionTest::ExpectAccuracy(float soft_cap, bool has_sinks) const {
  for (const auto& [heads, key_length, value_length, first, count] :
       {std::array<uint32_t, 5>{8, 64, 64, 0, 1000},
        {1, 128, 128, 0, 33},
        {4, 80, 96, 7, 90},
        {2, 8, 16, 31, 2},
        {3, 1, 1, 0, 70},
        {17, 33, 47, 40, 64},
        {1, 512, 512, 0, 65}}) {
    AttentionCase from = MakeAttentionCase(heads, key_length, value_length, first, count, 5);
    from.soft_cap = soft_cap;
    if (has_sinks) from.sinks = Numbers(heads).Gaussians(heads, 2.0f);
    const std::vector<float> outputs = Attend(from);
    std::vector<float> unused(outputs.size());
    const double scale = StoredKeys(from, CutInto::kWholeChunks, 1).Task(unused.data()).scale;
    for (uint32_t h = 0; h < heads; ++h) {
      const Exact exact = ExactHead(from, h, scale);
      for (uint32_t i = 0; i < value_length; ++i) {
        const double error = std::abs(outputs[h * value_length + i] - exact.out[i]);
        ASSERT_TRUE(error <= exact.tolerance[i]) << "head " << h << " element " << i << ": off by "
                                                 << error << " of " << exact.tolerance[i];
      }
    }
  }
}

TEST_P(AttentionTest, DoesNotDependOnWhereKeysAreStored) {
  for (const uint32_t first : {0u, 1u, 31u, 32u, 33u, 50u}) {
    for (const uint32_t count : {1u, 2u, 31u, 32u, 33u, 64u, 100u}) {
      const AttentionCase from = MakeAttentionCase(3, 24, 40, first, count, first + 100 * count);
      const std::vector<float> whole = Attend(from);
      EXPECT_EQ(Attend(from, CutInto::kSingles), whole) << first << " " << count;
      for (uint64_t seed = 0; seed < 5; ++seed) {
        EXPECT_EQ(Attend(from, CutInto::kRandom, seed), whole) << first << " " << count;
      }
    }
  }
}

TEST_P(AttentionTest, AHeadDoesNotDependOnThoseBesideIt) {
  const AttentionCase all = MakeAttentionCase(19, 64, 64, 3, 100, 9);
  const std::vector<float> together = Attend(all);
  for (uint32_t h = 0; h < all.head_count; ++h) {
    AttentionCase one = all;
    one.head_count = 1;
    one.queries.assign(all.queries.begin() + h * 64, all.queries.begin() + (h + 1) * 64);
    EXPECT_EQ(Attend(one),
              std::vector<float>(together.begin() + h * 64, together.begin() + (h + 1) * 64));
  }
}

// Weights beyond exp's reach are +0: a far larger key alone decides, wherever the window starts.
TEST_P(AttentionTest, AKeyFarAboveTheOthersDecidesAlone) {
  for (const uint32_t at : {0u, 40u, 69u}) {
    AttentionCase from = MakeAttentionCase(1, 16, 16, 10, 70, 2);
    for (uint32_t i = 0; i < 16; ++i) {
      from.keys[at * 16 + i] = FloatToHalf(from.queries[i] * 1000.0f);
    }
    const std::vector<float> outputs = Attend(from);
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(outputs[i], HalfToFloat(from.values[at * 16 + i]));
    }
  }
}

TEST_P(AttentionTest, ANaNScoreMakesTheWholeHeadNaN) {
  constexpr uint16_t kHalfNaN = 0x7e00, kHalfInfinity = 0x7c00;
  for (const uint16_t bad : {kHalfNaN, kHalfInfinity}) {
    for (const uint32_t at : {0u, 15u, 16u, 40u, 69u}) {
      AttentionCase from = MakeAttentionCase(2, 20, 20, 10, 70, 3);
      from.queries[4] = std::abs(from.queries[4]);  // infinity times it is a score of +infinity
      from.keys[at * 20 + 4] = bad;
      const std::vector<float> outputs = Attend(from);
      for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(std::isnan(outputs[i])) << at;
    }
  }
  // A NaN in one head's query is that head's alone.
  AttentionCase from = MakeAttentionCase(2, 20, 20, 10, 70, 3);
  const std::vector<float> before = Attend(from);
  from.queries[25] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> outputs = Attend(from);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(outputs[i], before[i]);
    EXPECT_TRUE(std::isnan(outputs[20 + i]));
  }
}

TEST_P(AttentionTest, AKeyOfMinusInfinityWeighsNothingUnlessItStandsAlone) {
  AttentionCase from = MakeAttentionCase(1, 16, 16, 0, 40, 3);
  from.queries[4] = 1.0f;
  from.keys[35 * 16 + 4] = 0xfc00;
  AttentionCase without = from;
  for (uint32_t i = 0; i < 16; ++i)
    without.keys[35 * 16 + i] = FloatToHalf(-60000.0f * from.queries[i]);
  EXPECT_EQ(Attend(from), Attend(without));
  const AttentionCase alone = {
      .head_count = 1,
      .key_length = 16,
      .value_length = 16,
      .first_position = 35,
      .count = 1,
      .queries = from.queries,
      .keys = {from.keys.begin() + 35 * 16, from.keys.begin() + 36 * 16},
      .values = {from.values.begin() + 35 * 16, from.values.begin() + 36 * 16}};
  for (const float value : Attend(alone)) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace outrider
