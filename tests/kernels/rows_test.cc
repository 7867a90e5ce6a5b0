// Every row kernel against double precision, with the tolerance its roundings add up to. `u` is
// half a unit in the last place of 1: the relative error of one operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/formats/tensors/half.h"
#include "tests/kernels/row_tables_here.h"

namespace outrider {
namespace {

constexpr double u = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// NaN fails, as it should.
#define EXPECT_WITHIN(actual, expected, tolerance)                              \
  EXPECT_TRUE(std::abs(double{actual} - double{expected}) <= double{tolerance}) \
      << "is " << (actual) << ", expected " << (expected) << " +- " << (tolerance)

std::vector<float> Gaussian(size_t count, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

class RowsTest : public testing::TestWithParam<NamedRows> {
 protected:
  const RowKernels& rows() const { return *GetParam().rows; }
};

INSTANTIATE_TEST_SUITE_P(Tables, RowsTest, testing::ValuesIn(RowTablesHere()),
                         [](const auto& named) { return std::string(named.param.name); });

// ---- exp

// Whatever the exact value is, to 1.5 units in the last place of the float beside it.
double UlpsFromExp(float x, float actual) {
  const double exact = std::exp(double{x});
  const int exponent = std::ilogb(exact);
  return std::abs(double{actual} - exact) / std::ldexp(1.0, exponent - 23);
}

TEST_P(RowsTest, ExpIsWithinOneAndAHalfUlp) {
  const uint32_t largest = std::bit_cast<uint32_t>(0x1.62e42ep+6f);
  const uint32_t smallest = std::bit_cast<uint32_t>(-0x1.5d589ep+6f);
  double worst = 0;
  std::vector<float> x, y;
  for (const auto& [from, to] : {std::pair{0u, largest}, std::pair{0x80000000u, smallest}}) {
    for (uint64_t bits = from; bits <= to;) {
      x.clear();
      for (; bits <= to && x.size() < 4096; bits += 257) {
        x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      }
      y.resize(x.size());
      rows().exp(x.data(), static_cast<uint32_t>(x.size()), y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const double ulps = UlpsFromExp(x[i], y[i]);
        if (!(ulps <= worst)) worst = ulps;  // keeps a NaN
      }
    }
  }
  EXPECT_TRUE(worst <= 1.5) << worst;
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST_P(RowsTest, ExpKeepsItsLimits) {
  const std::vector<float> x = {0.0f,           -0.0f,           0x1p-149f,       0x1.62e42ep+6f,
                                0x1.62e430p+6f, -0x1.5d589ep+6f, -0x1.5d58a0p+6f, 1e30f,
                                -1e30f,         kInfinity,       -kInfinity,      kNaN,
                                -kNaN};
  std::vector<float> y(x.size());
  rows().exp(x.data(), static_cast<uint32_t>(x.size()), y.data());
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 1.0f);
  EXPECT_TRUE(UlpsFromExp(x[3], y[3]) <= 1.5) << y[3];
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_TRUE(UlpsFromExp(x[5], y[5]) <= 1.5) << y[5];
  EXPECT_GE(y[5], std::numeric_limits<float>::min());
  EXPECT_EQ(std::bit_cast<uint32_t>(y[6]), 0u);
  EXPECT_EQ(y[7], kInfinity);
  EXPECT_EQ(std::bit_cast<uint32_t>(y[8]), 0u);
  EXPECT_EQ(y[9], kInfinity);
  EXPECT_EQ(std::bit_cast<uint32_t>(y[10]), 0u);
  EXPECT_TRUE(std::isnan(y[11]));
  EXPECT_TRUE(std::isnan(y[12]));
}

// ---- Activations

double Silu(double x) {
  return x / (1 + std::exp(-x));
}

double GeluTanh(double x) {
  const double c = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * c));  // 0.5 x (1 + tanh c) without its cancellation
}

std::vector<float> ActivationInputs() {
  std::vector<float> x = Gaussian(3000, 3.0f, 7);
  for (float value = -100; value <= 100; value += 0.173f) x.push_back(value);
  for (const float value : {0.0f, 1e-40f, 1e-20f, 1e20f, 3e38f}) {
    x.push_back(value);
    x.push_back(-value);
  }
  return x;
}

// Below this a result may be anything smaller: where exp(-x) overflows, it is -0.
constexpr double kActivationFloor = 3e-37;

TEST_P(RowsTest, SiluIsAccurate) {
  const std::vector<float> x = ActivationInputs();
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> y(x.size());
  rows().silu_gate(x.data(), ones.data(), static_cast<uint32_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = Silu(x[i]);  // exp 3u, the sum u, the quotient u
    EXPECT_WITHIN(y[i], exact, std::abs(exact) * 5 * u + kActivationFloor) << x[i];
  }
}

TEST_P(RowsTest, GeluIsAccurate) {
  const std::vector<float> x = ActivationInputs();
  std::vector<float> y(x.size());
  rows().gelu_tanh(x.data(), static_cast<uint32_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    // exp's argument z carries 5u (three operations, two constants), which is 5u |z| in its result
    // where the result matters; then as silu.
    const double z = 2 * std::sqrt(2 / M_PI) * (x[i] + 0.044715 * std::pow(double{x[i]}, 3));
    const double exact = GeluTanh(x[i]);
    const double relative = (5 + 5 * std::min(std::abs(z), 100.0)) * u;
    EXPECT_WITHIN(y[i], exact, std::abs(exact) * relative + kActivationFloor) << x[i];
  }
}

TEST_P(RowsTest, AClampedGateIsAccurate) {
  const std::vector<float> x = ActivationInputs();
  std::vector<float> up = x, y(x.size());
  std::ranges::reverse(up);
  rows().clamped_silu_gate(x.data(), up.data(), static_cast<uint32_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double gate = std::min(double{x[i]}, 7.0);
    const double z = 1.702 * gate;
    const double exact = gate / (1 + std::exp(-z)) * (std::clamp(double{up[i]}, -7.0, 7.0) + 1);
    // exp's argument carries 2u; as silu, then a sum and a product.
    const double relative = (7 + 2 * std::min(std::abs(z), 100.0)) * u;
    EXPECT_WITHIN(y[i], exact, std::abs(exact) * relative + 8 * kActivationFloor) << x[i];
  }
}

TEST_P(RowsTest, ASoftCapIsAccurate) {
  const std::vector<float> x = ActivationInputs();
  std::vector<float> y(x.size());
  for (const float cap : {1.0f, 3.0f, 50.0f}) {
    rows().soft_cap(x.data(), cap, static_cast<uint32_t>(x.size()), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = cap * std::tanh(double{x[i]} / double{cap});
      EXPECT_TRUE(std::abs(y[i]) <= cap);
      // Where tanh is 1 - 2 / (1 + exp), the quotient's 5u are of no more than 2; below 0.625 it is
      // a polynomial. The quotient x / cap and the product add one each; a quotient below the
      // smallest normal number is off by a unit of those.
      EXPECT_WITHIN(y[i], exact, std::abs(exact) * 10 * u + double{cap} * 0x1p-149)
          << x[i] << " " << cap;
    }
  }
}

TEST_P(RowsTest, ASoftCapKeepsItsLimits) {
  const std::vector<float> x = {kInfinity, -kInfinity, kNaN, 3e38f, -3e38f, 0.0f, -0.0f};
  std::vector<float> y(x.size());
  rows().soft_cap(x.data(), 30.0f, static_cast<uint32_t>(x.size()), y.data());
  EXPECT_EQ(y[0], 30.0f);
  EXPECT_EQ(y[1], -30.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 30.0f);
  EXPECT_EQ(y[4], -30.0f);
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_EQ(y[6], 0.0f);
}

TEST_P(RowsTest, ActivationsKeepTheirLimits) {
  const std::vector<float> x = {kInfinity, -kInfinity, kNaN, -3e38f, 3e38f};
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> silu(x.size()), gelu(x.size()), gelu_gate(x.size());
  rows().silu_gate(x.data(), ones.data(), 5, silu.data());
  rows().gelu_tanh(x.data(), 5, gelu.data());
  rows().gelu_tanh_gate(x.data(), ones.data(), 5, gelu_gate.data());
  for (const std::vector<float>& y : {silu, gelu, gelu_gate}) {
    EXPECT_EQ(y[0], kInfinity);
    EXPECT_EQ(std::bit_cast<uint32_t>(y[1]), 0x80000000u);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(std::bit_cast<uint32_t>(y[3]), 0x80000000u);
    EXPECT_EQ(y[4], 3e38f);
  }
}

TEST_P(RowsTest, AGateIsTheActivationTimesUp) {
  const std::vector<float> gate = Gaussian(77, 2.0f, 3), up = Gaussian(77, 2.0f, 4);
  std::vector<float> activated(77), gated(77);
  rows().gelu_tanh(gate.data(), 77, activated.data());
  rows().gelu_tanh_gate(gate.data(), up.data(), 77, gated.data());
  for (size_t i = 0; i < 77; ++i) EXPECT_EQ(gated[i], activated[i] * up[i]);
}

// ---- Norms

TEST_P(RowsTest, RmsNormIsAccurate) {
  for (const uint32_t count : {1u, 15u, 16u, 64u, 1000u, 4096u}) {
    const std::vector<float> x = Gaussian(count, 5.0f, count), w = Gaussian(count, 1.0f, 2);
    std::vector<float> y(count);
    rows().rms_norm(x.data(), w.data(), 1e-5f, count, y.data());
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const double r = 1 / std::sqrt(squares / count + double{1e-5f});
    // The sum: one rounding per element of a lane and four in the tree, halved by the root.
    const double relative = ((count / 16 + 5) * 0.5 + 6) * u;
    for (size_t i = 0; i < count; ++i) {
      const double exact = x[i] * r * w[i];
      EXPECT_WITHIN(y[i], exact, std::abs(exact) * relative);
    }
  }
}

TEST_P(RowsTest, LayerNormIsAccurate) {
  for (const uint32_t count : {1u, 17u, 64u, 1000u, 4096u}) {
    std::vector<float> x = Gaussian(count, 5.0f, count);
    for (float& value : x) value += 3.0f;
    const std::vector<float> w = Gaussian(count, 1.0f, 2), b = Gaussian(count, 1.0f, 5);
    std::vector<float> y(count);
    rows().layer_norm(x.data(), w.data(), b.data(), 1e-5f, count, y.data());
    double sum = 0, magnitudes = 0, squares = 0;
    for (const float value : x) sum += value, magnitudes += std::abs(value);
    const double mean = sum / count;
    for (const float value : x) squares += (value - mean) * (value - mean);
    const double r = 1 / std::sqrt(squares / count + double{1e-5f});
    const double roundings = (count / 16 + 6) * u;
    // How far the mean is off shifts every element, and the root of the squares.
    const double shift = roundings * magnitudes / count + u * std::abs(mean);
    for (size_t i = 0; i < count; ++i) {
      const double centred = std::abs(x[i] - mean);
      const double relative = roundings * 0.5 + shift * r + 8 * u;
      const double tolerance = std::abs(w[i]) * r * (shift + u * centred + centred * relative) +
                               u * (std::abs(b[i]) + centred * r * std::abs(w[i]));
      EXPECT_WITHIN(y[i], (x[i] - mean) * r * w[i] + b[i], tolerance) << count;
    }
  }
}

TEST_P(RowsTest, ANaNOrAnInfinityInARowSpoilsTheNormOfAllOfIt) {
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    std::vector<float> x = Gaussian(70, 1.0f, 1);
    x[33] = bad;
    const std::vector<float> ones(70, 1.0f);
    std::vector<float> y(70);
    rows().layer_norm(x.data(), ones.data(), ones.data(), 1e-5f, 70, y.data());
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
    rows().rms_norm(x.data(), ones.data(), 1e-5f, 70, y.data());
    EXPECT_TRUE(std::isnan(y[33]));  // and through it every product of the row
  }
}

TEST_P(RowsTest, AddAddsInPlace) {
  const std::vector<float> before = Gaussian(35, 1.0f, 1), y = Gaussian(35, 1.0f, 2);
  std::vector<float> x = before;
  rows().add(x.data(), y.data(), 35);
  for (size_t i = 0; i < 35; ++i) EXPECT_EQ(x[i], before[i] + y[i]);
}

// A fused product would round once where this rounds twice.
TEST_P(RowsTest, WeightedSumsRoundEveryProductAndEverySumInOrder) {
  const std::vector<float> x = Gaussian(35, 1.0f, 1), y = Gaussian(35, 1.0f, 2);
  const std::vector<float> z = Gaussian(35, 1.0f, 3);
  const WeightedRow terms[] = {{x.data(), 0.3f}, {y.data(), 0.7f}, {z.data(), -0.1f}};
  std::vector<float> out(35);
  rows().weighted_sum(terms, 3, 35, out.data());
  for (size_t i = 0; i < 35; ++i) {
    const volatile float a = 0.3f * x[i], b = 0.7f * y[i], c = -0.1f * z[i];
    const volatile float ab = a + b;
    EXPECT_EQ(out[i], ab + c) << i;
  }
  rows().weighted_sum(terms, 1, 35, out.data());
  for (size_t i = 0; i < 35; ++i) EXPECT_EQ(out[i], 0.3f * x[i]) << i;
}

// ---- Rope

TEST_P(RowsTest, RopeRotatesPairs) {
  for (const uint32_t pairs : {1u, 4u, 15u, 16u, 32u, 40u, 64u}) {
    std::vector<float> cos(pairs), sin(pairs);
    for (uint32_t i = 0; i < pairs; ++i) {
      cos[i] = static_cast<float>(std::cos(0.37 * i + 1));
      sin[i] = static_cast<float>(std::sin(0.37 * i + 1));
    }
    const std::vector<float> x = Gaussian(2 * pairs, 4.0f, pairs);
    std::vector<float> interleaved = x, halves = x;
    rows().rope_interleaved(interleaved.data(), cos.data(), sin.data(), pairs);
    rows().rope_halves(halves.data(), cos.data(), sin.data(), pairs);
    const auto check = [&](const std::vector<float>& y, uint32_t at0, uint32_t at1, uint32_t pair) {
      const double c = cos[pair], s = sin[pair], x0 = x[at0], x1 = x[at1];
      const double y0 = x0 * c - x1 * s, y1 = x0 * s + x1 * c;
      EXPECT_WITHIN(y[at0], y0, u * (std::abs(x0 * c) + std::abs(x1 * s) + std::abs(y0)) * 1.01);
      EXPECT_WITHIN(y[at1], y1, u * (std::abs(x0 * s) + std::abs(x1 * c) + std::abs(y1)) * 1.01);
    };
    for (uint32_t i = 0; i < pairs; ++i) {
      check(interleaved, 2 * i, 2 * i + 1, i);
      check(halves, i, i + pairs, i);
    }
  }
}

// ---- Quantisation

TEST_P(RowsTest, QuantisationIsWithinHalfAStep) {
  for (const uint32_t block : {32u, 256u}) {
    const uint32_t count = 6 * block;
    std::vector<float> x = Gaussian(count, 1.0f, block);
    x[block + 5] = 1000.0f;                                           // an outlier
    std::fill_n(x.begin() + 2 * block, block, 0.0f);                  // zeros
    for (uint32_t i = 0; i < block; ++i) x[3 * block + i] *= 1e-30f;  // small
    for (uint32_t i = 0; i < block; ++i) x[4 * block + i] *= 1e37f;   // huge
    std::vector<int8_t> quants(count);
    std::vector<float> scales(count / block);
    std::vector<int16_t> sums(count / 16);
    rows().quantize(x.data(), count, block, quants.data(), scales.data(), sums.data());
    for (uint32_t i = 0; i < count; ++i) {
      const double d = scales[i / block];
      // v is off by 2u, x * v by another u, and so is d: 4u of at most 127 steps.
      EXPECT_WITHIN(d * quants[i], x[i], d * (0.5 + 127 * 4 * u)) << i;
    }
    for (uint32_t s = 0; s < count / 16; ++s) {
      int sum = 0;
      for (uint32_t i = 0; i < 16; ++i) sum += quants[16 * s + i];
      EXPECT_EQ(sums[s], sum);
    }
  }
}

TEST_P(RowsTest, QuantisationRoundsTiesToEven) {
  std::vector<float> x(32, 0.0f);
  const float wanted[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f};
  std::copy(std::begin(wanted), std::end(wanted), x.begin());
  std::vector<int8_t> quants(32);
  float scale = 0;
  int16_t sums[2];
  rows().quantize(x.data(), 32, 32, quants.data(), &scale, sums);
  EXPECT_EQ(scale, 1.0f);
  const int8_t expected[] = {127, 0, 2, 2, 0, -2, -2, 126, -126};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(quants[i], expected[i]) << i;
}

TEST_P(RowsTest, ABlockThatCannotBeQuantisedSaysSoInItsScale) {
  for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    for (uint32_t at = 0; at < 32; ++at) {
      std::vector<float> x = Gaussian(64, 1.0f, at);
      x[at] = bad;
      std::vector<int8_t> quants(64, 1);
      float scales[2];
      int16_t sums[4];
      rows().quantize(x.data(), 64, 32, quants.data(), scales, sums);
      EXPECT_TRUE(std::isnan(scales[0]));
      EXPECT_TRUE(scales[1] > 0);
      EXPECT_TRUE(std::all_of(quants.begin(), quants.begin() + 32, [](int q) { return q == 0; }));
      EXPECT_EQ(sums[0], 0);
      EXPECT_EQ(sums[1], 0);
    }
  }
  // 127 / m overflows for these: zeros.
  for (const float tiny : {0x1p-149f, 1e-40f, 3.7e-37f}) {
    std::vector<float> x(32, tiny);
    std::vector<int8_t> quants(32, 1);
    float scale = 1;
    int16_t sums[2];
    rows().quantize(x.data(), 32, 32, quants.data(), &scale, sums);
    EXPECT_EQ(std::bit_cast<uint32_t>(scale), 0u);
    EXPECT_TRUE(std::all_of(quants.begin(), quants.end(), [](int q) { return q == 0; }));
  }
}

// ---- Halves

TEST_P(RowsTest, NarrowingGivesTheNearestHalf) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  std::vector<uint16_t> y(x.size());
  rows().to_half(x.data(), static_cast<uint32_t>(x.size()), y.data());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += y[i] != FloatToHalf(x[i]);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace outrider
