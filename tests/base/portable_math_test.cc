#include "common/base/portable_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

// What rounding the result costs, 1/2, and less than another half for everything before it. Each
// function keeps its leading term exact (1 in exp, f in log, y in sin, 1 in cos) and adds the rest,
// at most 0.42 of it, rounded once at the end of a few steps whose own errors are smaller still.
// The references have 64 bits; their own error is below 2^-10 ulp.
constexpr double kUlps = 1 + 0x1p-10;

// Pow hands exp a logarithm to 2^-63 relative, and 745 times that is 0.75 ulp of the result.
constexpr double kPowUlps = 1.75 + 0x1p-10;

// The distance in units in the last place of the reference.
double UlpsApart(double result, long double reference) {
  if (std::isnan(reference)) return std::isnan(result) ? 0 : kInfinity;
  const double nearest = static_cast<double>(reference);
  if (std::isinf(nearest) || std::isinf(result)) return result == nearest ? 0 : kInfinity;
  int exponent = 0;
  std::frexp(reference, &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(static_cast<long double>(result) - reference) / ulp);
}

// Numbers that follow from their seed alone, on every platform.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  double Between(double low, double high) {
    return low + static_cast<double>(Bits() >> 11) * 0x1p-53 * (high - low);
  }

  // Any exponent with the same probability, subnormal ones, infinities and NaNs among them.
  double Any() { return std::bit_cast<double>(Bits()); }

 private:
  uint64_t state_;
};

// What hurts somewhere: ends of the range, the points where a method changes, and their neighbours.
std::vector<double> SharpPoints() {
  std::vector<double> points = {0.0, -0.0, kInfinity, -kInfinity, kNaN};
  for (const double x :
       {kLeast, std::numeric_limits<double>::min(), kLargest, 0x1p-54, 0x1p-53, 0x1p-27, 0.2928,
        0.34657359027997264, 0.4142, 0.41421356237309515, 0.5, 0.6931471805599453,
        0.7071067811865475, 0.7853981633974483, 1.0, 1.4142135623730951, 1.5707963267948966, 2.0,
        2.356194490192345, 3.141592653589793, 36.7, 709.782712893384, 708.3964185322641,
        744.4400719213812, 745.1332191019411, 710.0, 746.0, 1e7, 1e22, 0x1p53, 0x1p54,
        // The double closest, for its size, to a multiple of pi/2.
        6381956970095103 * 0x1p797}) {
    for (const double y : {std::nextafter(x, 0), x, std::nextafter(x, kInfinity)}) {
      points.push_back(y);
      points.push_back(-y);
    }
  }
  return points;
}

// Arguments where `Function` is interesting: sharp points, all magnitudes, and a range.
template <typename Visit>
void Sweep(double low, double high, const Visit& visit) {
  for (const double x : SharpPoints()) visit(x);
  Numbers numbers(1);
  for (int i = 0; i < 200'000; ++i) {
    visit(numbers.Any());
    visit(numbers.Between(low, high));
    visit(numbers.Between(-1, 1) * std::ldexp(1.0, -(i % 64)));      // near 0
    visit(1 + numbers.Between(-1, 1) * std::ldexp(1.0, -(i % 52)));  // near 1
  }
}

struct Worst {
  double ulps = 0;
  double at = 0;
};

Worst WorstOf(const std::function<double(double)>& function,
              const std::function<long double(long double)>& reference, double low, double high) {
  Worst worst;
  Sweep(low, high, [&](double x) {
    const double ulps = UlpsApart(function(x), reference(x));
    if (!(ulps <= worst.ulps)) worst = {ulps, x};
  });
  ::testing::Test::RecordProperty("ulps", std::to_string(worst.ulps));
  return worst;
}

TEST(PortableMathTest, ExpIsWithinOneUlp) {
  const Worst worst = WorstOf(
      portable::Exp, [](long double x) { return std::exp(x); }, -750, 715);
  EXPECT_LE(worst.ulps, kUlps) << "at " << worst.at;
}

TEST(PortableMathTest, LogIsWithinOneUlp) {
  const Worst worst = WorstOf(
      portable::Log, [](long double x) { return std::log(x); }, 0, 10);
  EXPECT_LE(worst.ulps, kUlps) << "at " << worst.at;
}

TEST(PortableMathTest, Log1pIsWithinOneUlp) {
  const Worst worst = WorstOf(
      portable::Log1p, [](long double x) { return std::log1p(x); }, -1, 4);
  EXPECT_LE(worst.ulps, kUlps) << "at " << worst.at;
}

double Sin(double x) {
  return portable::SinCos(x).sin;
}

double Cos(double x) {
  return portable::SinCos(x).cos;
}

TEST(PortableMathTest, SinAndCosAreWithinOneUlp) {
  for (const double range : {1.0, 100.0, 1e7}) {
    const Worst sin = WorstOf(
        Sin, [](long double x) { return std::sin(x); }, -range, range);
    EXPECT_LE(sin.ulps, kUlps) << "sin at " << sin.at;
    const Worst cos = WorstOf(
        Cos, [](long double x) { return std::cos(x); }, -range, range);
    EXPECT_LE(cos.ulps, kUlps) << "cos at " << cos.at;
  }
}

// The doubles next to a multiple of pi/2, where all leading bits cancel.
TEST(PortableMathTest, SinAndCosAreWithinOneUlpAtTheirZeros) {
  Numbers numbers(2);
  for (int i = 0; i < 100'000; ++i) {
    const double k = std::floor(std::exp2(numbers.Between(0, 50)));
    const double x = static_cast<double>(k * 1.57079632679489661923132169163975144L);
    EXPECT_LE(UlpsApart(Sin(x), std::sin(static_cast<long double>(x))), kUlps) << x;
    EXPECT_LE(UlpsApart(Cos(x), std::cos(static_cast<long double>(x))), kUlps) << x;
  }
}

TEST(PortableMathTest, PowIsWithinTwoUlps) {
  Worst worst;
  double worst_exponent = 0;
  const auto check = [&](double base, double exponent) {
    if (std::signbit(base)) return;
    const double ulps =
        UlpsApart(portable::Pow(base, exponent),
                  std::pow(static_cast<long double>(base), static_cast<long double>(exponent)));
    if (!(ulps <= worst.ulps)) {
      worst = {ulps, base};
      worst_exponent = exponent;
    }
  };
  for (const double base : SharpPoints()) {
    for (const double exponent : SharpPoints()) check(base, exponent);
  }
  Numbers numbers(3);
  for (int i = 0; i < 200'000; ++i) {
    check(std::fabs(numbers.Any()), numbers.Between(-3, 3));
    check(numbers.Between(1, 1e7), -numbers.Between(0, 1));  // rope's frequencies
    // Any base, with a result that neither overflows nor vanishes.
    const double base = 1 + numbers.Between(-0.5, 1) * std::ldexp(1.0, -(i % 50));
    check(base, numbers.Between(-744, 709) / std::log(base));
  }
  RecordProperty("ulps", std::to_string(worst.ulps));
  EXPECT_LE(worst.ulps, kPowUlps) << "at " << worst.at << " to the " << worst_exponent;
}

TEST(PortableMathTest, WhereTheAnswerIsKnownItIsExact) {
  using portable::Exp, portable::Log, portable::Log1p, portable::Pow;
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-0.0), 1);
  EXPECT_EQ(Exp(1), 0x1.5bf0a8b145769p+1);
  EXPECT_EQ(Exp(-kInfinity), 0);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-745), kLeast);
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(0), -kInfinity);
  EXPECT_EQ(Log(-0.0), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_EQ(Log1p(kLeast), kLeast);
  EXPECT_TRUE(std::signbit(Log1p(-0.0)));
  EXPECT_EQ(Log1p(-1), -kInfinity);
  EXPECT_TRUE(std::signbit(Sin(-0.0)));
  EXPECT_EQ(Sin(kLeast), kLeast);
  EXPECT_EQ(Cos(0), 1);
  EXPECT_EQ(Pow(0, 0), 1);
  EXPECT_EQ(Pow(kNaN, 0), 1);
  EXPECT_EQ(Pow(1, kNaN), 1);
  EXPECT_EQ(Pow(0, 2), 0);
  EXPECT_EQ(Pow(0, -2), kInfinity);
  EXPECT_EQ(Pow(kInfinity, -1), 0);
  EXPECT_EQ(Pow(0.5, kInfinity), 0);
  for (int k = -1074; k <= 1023; ++k) {
    EXPECT_EQ(Pow(2, k), std::ldexp(1.0, k)) << k;
    EXPECT_EQ(Pow(std::ldexp(1.0, k), 1), std::ldexp(1.0, k)) << k;
  }
  for (int n = 1; n <= 22; ++n)
    EXPECT_EQ(Pow(10, n), std::strtod(("1e" + std::to_string(n)).c_str(), nullptr));
}

TEST(PortableMathTest, NoNumberIsAlwaysTheSameNoNumber) {
  const uint64_t expected = std::bit_cast<uint64_t>(kNaN);
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  for (const double nan : {kNaN, -kNaN, std::bit_cast<double>(0x7ff0000000000001)}) {
    EXPECT_EQ(bits(portable::Exp(nan)), expected);
    EXPECT_EQ(bits(portable::Log(nan)), expected);
    EXPECT_EQ(bits(portable::Log1p(nan)), expected);
    EXPECT_EQ(bits(Sin(nan)), expected);
    EXPECT_EQ(bits(Cos(nan)), expected);
    EXPECT_EQ(bits(portable::Pow(nan, 2)), expected);
    EXPECT_EQ(bits(portable::Pow(2, nan)), expected);
  }
  EXPECT_EQ(bits(portable::Log(-1)), expected);
  EXPECT_EQ(bits(portable::Log1p(-2)), expected);
  EXPECT_EQ(bits(Sin(kInfinity)), expected);
  EXPECT_EQ(bits(Cos(-kInfinity)), expected);
  EXPECT_EQ(bits(portable::Pow(-2, 2)), expected);
}

// The contract: these very bits, from every compiler and on every processor. A change here changes
// tokens, and the numerics id with them.
uint64_t HashOfBits(const std::function<double(double)>& function, double low, double high) {
  uint64_t hash = 0xcbf29ce484222325;
  Sweep(low, high, [&](double x) {
    uint64_t bits = std::bit_cast<uint64_t>(function(x));
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) hash = (hash ^ (bits & 0xff)) * 0x100000001b3;
  });
  return hash;
}

TEST(PortableMathTest, GivesTheSameBitsEverywhere) {
  EXPECT_EQ(HashOfBits(portable::Exp, -750, 715), 0xf1f08ab3ec39f623u);
  EXPECT_EQ(HashOfBits(portable::Log, 0, 10), 0x5206a06f493687ceu);
  EXPECT_EQ(HashOfBits(portable::Log1p, -1, 4), 0xe7ed7baa92b92764u);
  EXPECT_EQ(HashOfBits(Sin, -1e7, 1e7), 0x6f8b45dcbae2f179u);
  EXPECT_EQ(HashOfBits(Cos, -1e7, 1e7), 0xb9e919bf507f8038u);
  EXPECT_EQ(HashOfBits([](double x) { return portable::Pow(500'000, x); }, -1, 1),
            0x8cdcb1e7a689eee9u);
  EXPECT_EQ(HashOfBits([](double x) { return portable::Pow(x, 0.7); }, 0, 2), 0x99d766a481ca8122u);
}

}  // namespace
}  // namespace outrider
