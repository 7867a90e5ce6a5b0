#include "common/formats/tensors/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr uint32_t kHalfCount = 1 << 16;

bool IsNanHalf(uint32_t half) {
  return (half & 0x7fff) > 0x7c00;
}

// The definition, in double precision, from sign, exponent and fraction.
double HalfByDefinition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                           : exponent == 31 ? std::numeric_limits<double>::infinity()
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(HalfToFloat, IsTheDefinitionForEveryNumber) {
  for (uint32_t half = 0; half < kHalfCount; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (IsNanHalf(half)) {
      ASSERT_TRUE(std::isnan(value)) << half;
    } else {
      ASSERT_EQ(static_cast<double>(value), HalfByDefinition(static_cast<uint16_t>(half))) << half;
    }
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
  }
}

TEST(FloatToHalf, ReadsBackEveryHalf) {
  for (uint32_t half = 0; half < kHalfCount; ++half) {
    const uint32_t quiet = IsNanHalf(half) ? half | 0x0200 : half;
    ASSERT_EQ(FloatToHalf(HalfToFloat(static_cast<uint16_t>(half))), quiet);
  }
}

// Between each two neighbours: the midpoint goes to the even one, its float neighbours to theirs.
TEST(FloatToHalf, RoundsToTheNearestAndTiesToEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t low = 0; low < 0x7c00; ++low) {
    const uint32_t high = low + 1;
    const double from = HalfByDefinition(static_cast<uint16_t>(low));
    // Infinity rounds as the number that would come next, 65536.
    const double to = high == 0x7c00 ? 65536.0 : HalfByDefinition(static_cast<uint16_t>(high));
    const float middle = static_cast<float>((from + to) / 2);
    ASSERT_EQ(static_cast<double>(middle), (from + to) / 2) << "no float lies in the middle";
    ASSERT_EQ(FloatToHalf(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(FloatToHalf(-middle), 0x8000 | (low % 2 == 0 ? low : high)) << low;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, infinity)), high);
  }
}

TEST(FloatToHalf, SendsTheUnreachableToZeroAndInfinity) {
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::min()), 0x0000);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
}

// A NaN whose payload lies only in the bits that are cut must not come out as infinity.
TEST(FloatToHalf, KeepsNaN) {
  EXPECT_EQ(FloatToHalf(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(FloatToHalf(std::bit_cast<float>(0xffc00000u)), 0xfe00);
  EXPECT_EQ(FloatToHalf(std::bit_cast<float>(0x7fffffffu)), 0x7fff);
}

TEST(Bfloat16, ReadsBackEveryValue) {
  for (uint32_t bits = 0; bits < kHalfCount; ++bits) {
    const bool nan = (bits & 0x7fff) > 0x7f80;
    const float value = Bfloat16ToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::isnan(value), nan);
    ASSERT_EQ(FloatToBfloat16(value), nan ? bits | 0x0040 : bits);
  }
}

// A bfloat16 and the next differ by 2^16 in the bits of the float, so the middle is 2^15 above.
TEST(FloatToBfloat16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {
    const uint32_t middle = low << 16 | 0x8000;
    ASSERT_EQ(FloatToBfloat16(std::bit_cast<float>(middle)), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(FloatToBfloat16(std::bit_cast<float>(middle - 1)), low);
    ASSERT_EQ(FloatToBfloat16(std::bit_cast<float>(middle + 1)), low + 1);
    ASSERT_EQ(FloatToBfloat16(-std::bit_cast<float>(middle + 1)), 0x8000 | (low + 1));
  }
}

TEST(FloatToBfloat16, KeepsNaN) {
  EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

}  // namespace
}  // namespace outrider
