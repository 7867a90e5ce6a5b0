// Rope's frequencies and angles are those of transformers, whatever the scaling; what makes no
// frequencies is refused. The numbers to compare with are made by tests/golden/rope.py.
#include "common/kernels/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

constexpr double u = 0x1p-24;

RopeScaling ScalingOf(const std::string& name) {
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "llama3") return RopeScaling::kLlama3;
  if (name == "yarn") return RopeScaling::kYarn;
  return RopeScaling::kNone;
}

Rope RopeOf(const nlohmann::json& golden) {
  Rope rope;
  rope.style = RopeStyle::kHalves;
  rope.dimension_count = golden["dimension_count"];
  rope.base = golden["base"];
  rope.scaling = ScalingOf(golden["scaling"]);
  rope.factor = golden.value("factor", 1.0f);
  rope.original_context_length = golden.value("original_max_position_embeddings", 0u);
  rope.attention_factor = golden["attention_factor"];
  rope.yarn_beta_fast = golden.value("beta_fast", 32.0f);
  rope.yarn_beta_slow = golden.value("beta_slow", 1.0f);
  return rope;
}

void CompareWithGolden(const nlohmann::json& golden) {
  const std::vector<float> divisors = golden.value("divisors", std::vector<float>{});
  const absl::StatusOr<RopeTable> table = RopeTable::Create(RopeOf(golden), divisors);
  ASSERT_TRUE(table.ok()) << Message(table.status());
  const std::vector<float> frequencies = golden["frequencies"];
  ASSERT_EQ(table->pair_count(), frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    // Their powers are floats', good to an ulp; five more operations here and there.
    EXPECT_TRUE(std::abs(table->frequencies()[i] - frequencies[i]) <= 8 * u * frequencies[i])
        << i << ": " << table->frequencies()[i] << ", not " << frequencies[i];
  }
  const std::vector<uint32_t> positions = golden["positions"];
  const std::vector<float> their_cos = golden["cos"], their_sin = golden["sin"];
  std::vector<float> cos(frequencies.size()), sin(frequencies.size());
  const double factor = golden["attention_factor"];
  for (size_t p = 0; p < positions.size(); ++p) {
    table->Turn(positions[p], cos.data(), sin.data());
    for (size_t i = 0; i < frequencies.size(); ++i) {
      // The angles differ by what the frequencies do, and by their own roundings.
      const double difference = std::abs(double{table->frequencies()[i]} - frequencies[i]);
      const double angle = positions[p] * (difference + 2 * u * frequencies[i]);
      const double tolerance = factor * ((difference == 0 ? 0 : angle) + 4 * u);
      const size_t at = p * frequencies.size() + i;
      EXPECT_TRUE(std::abs(cos[i] - their_cos[at]) <= tolerance) << positions[p] << " " << i;
      EXPECT_TRUE(std::abs(sin[i] - their_sin[at]) <= tolerance) << positions[p] << " " << i;
    }
  }
}

TEST(RopeTableTest, AgreesWithTransformers) {
  std::ifstream file(TestFile("rope/transformers.json"));
  const nlohmann::json cases = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(cases.is_array());
  EXPECT_GE(cases.size(), 13u);
  for (const nlohmann::json& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    CompareWithGolden(golden);
  }
}

Rope Plain() {
  Rope rope;
  rope.style = RopeStyle::kInterleaved;
  rope.dimension_count = 64;
  return rope;
}

TEST(RopeTableTest, PositionNoughtTurnsNothing) {
  const absl::StatusOr<RopeTable> table = RopeTable::Create(Plain(), {});
  ASSERT_TRUE(table.ok());
  std::vector<float> cos(32), sin(32);
  table->Turn(0, cos.data(), sin.data());
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(cos[i], 1.0f);
    EXPECT_EQ(sin[i], 0.0f);
  }
  // The first frequency is exactly 1, so its angle is the position, whatever its size.
  table->Turn(4294967295u, cos.data(), sin.data());
  EXPECT_TRUE(std::abs(cos[0] - std::cos(4294967296.0)) <= 2 * u);
  EXPECT_TRUE(std::abs(sin[0] - std::sin(4294967296.0)) <= 2 * u);
}

// Divisors times powers, in this order, and everything by the attention factor.
TEST(RopeTableTest, LongRopeDividesByItsFactors) {
  Rope rope = Plain();
  rope.scaling = RopeScaling::kLongRope;
  rope.attention_factor = 1.25f;
  std::vector<float> factors(32);
  for (size_t i = 0; i < 32; ++i) factors[i] = 1.0f + 0.37f * static_cast<float>(i);
  const absl::StatusOr<RopeTable> table = RopeTable::Create(rope, factors);
  ASSERT_TRUE(table.ok());
  const absl::StatusOr<RopeTable> plain = RopeTable::Create(Plain(), {});
  ASSERT_TRUE(plain.ok());
  std::vector<float> cos(32), sin(32);
  table->Turn(7, cos.data(), sin.data());
  for (size_t i = 0; i < 32; ++i) {
    const double exact = double{plain->frequencies()[i]} / double{factors[i]};
    EXPECT_TRUE(std::abs(table->frequencies()[i] - exact) <= 4 * u * exact) << i;
    const double angle = 7.0f * table->frequencies()[i];
    EXPECT_TRUE(std::abs(cos[i] - 1.25 * std::cos(angle)) <= 8 * u) << i;
    EXPECT_TRUE(std::abs(sin[i] - 1.25 * std::sin(angle)) <= 8 * u) << i;
  }
}

TEST(RopeTableTest, NoRopeHasNoPairs) {
  const absl::StatusOr<RopeTable> table = RopeTable::Create(Rope{}, {});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->pair_count(), 0u);
}

std::string Refusal(const Rope& rope, const std::vector<float>& divisors = {}) {
  const absl::StatusOr<RopeTable> table = RopeTable::Create(rope, divisors);
  return table.ok() ? "" : std::string(Message(table.status()));
}

TEST(RopeTableTest, RefusesWhatMakesNoFrequencies) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Rope rope = Plain();
  rope.scaling = RopeScaling::kLongRope;
  EXPECT_EQ(Refusal(rope), "rope_factors_short.weight has 0 factors, must have 32 for this rope");
  rope.is_long = true;
  EXPECT_EQ(Refusal(rope), "rope_factors_long.weight has 0 factors, must have 32 for this rope");
  rope = Plain();
  rope.dimension_count = 63;
  EXPECT_EQ(Refusal(rope), "rope dimension count is 63, must be even and at most 512");
  rope.dimension_count = 4000000000u;
  EXPECT_EQ(Refusal(rope), "rope dimension count is 4000000000, must be even and at most 512");
  for (const float bad : {0.0f, -1.0f, kNaN, std::numeric_limits<float>::infinity()}) {
    rope = Plain();
    rope.base = bad;
    EXPECT_NE(Refusal(rope), "") << bad;
    rope = Plain();
    rope.factor = bad;
    EXPECT_NE(Refusal(rope), "") << bad;
    rope = Plain();
    rope.attention_factor = bad;
    EXPECT_NE(Refusal(rope), "") << bad;
    rope = Plain();
    rope.scaling = RopeScaling::kLlama3;
    std::vector<float> divisors(32, 1.0f);
    EXPECT_EQ(Refusal(rope, divisors), "");
    divisors[7] = bad;
    EXPECT_NE(Refusal(rope, divisors), "") << bad;
  }
  // Each by itself is a number, and both together are not.
  rope = Plain();
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 1e-39f;
  EXPECT_EQ(Refusal(rope),
            "rope.freq_base (or rope_theta) of 10000 and rope.scaling.factor of 1e-39 make a "
            "frequency of inf");
  // Divisors come with llama3, and only with it.
  rope = Plain();
  rope.scaling = RopeScaling::kLlama3;
  EXPECT_EQ(Refusal(rope, std::vector<float>(31, 1.0f)),
            "rope_freqs.weight has 31 factors, must have 32 for this rope");
  EXPECT_NE(Refusal(rope), "");
  EXPECT_NE(Refusal(Plain(), std::vector<float>(32, 1.0f)), "");
  rope.factor = 1.0f;
  EXPECT_NE(Refusal(rope, std::vector<float>(32, std::numeric_limits<float>::denorm_min())), "");
}

TEST(RopeTableTest, RefusesYarnWithoutItsNumbers) {
  Rope rope = Plain();
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4.0f;
  EXPECT_EQ(Refusal(rope),
            "yarn scaling needs rope.scaling.original_context_length (or "
            "original_max_position_embeddings)");
  rope.original_context_length = 4096;
  EXPECT_EQ(Refusal(rope), "");
  Rope bad = rope;
  bad.base = 1.0f;
  EXPECT_EQ(Refusal(bad), "rope.freq_base (or rope_theta) is 1, must be above 1 for yarn scaling");
  bad = rope;
  bad.yarn_beta_fast = 0.0f;
  EXPECT_NE(Refusal(bad), "");
  bad = rope;
  bad.yarn_beta_slow = -1.0f;
  EXPECT_NE(Refusal(bad), "");
  // Betas the wrong way round make a ramp that falls; it is computed all the same.
  bad = rope;
  std::swap(bad.yarn_beta_fast, bad.yarn_beta_slow);
  EXPECT_EQ(Refusal(bad), "");
}

}  // namespace
}  // namespace outrider
