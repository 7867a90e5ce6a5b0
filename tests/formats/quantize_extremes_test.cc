// Inputs that hurt: zeros, outliers, what is tiny, what is too large, and what is no number.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/quantize.h"
#include "gtest/gtest.h"
#include "tests/formats/quantized_values.h"

namespace outrider {
namespace {

TEST(Quantize, ZerosStayZerosWithoutASign) {
  for (const TensorType type : kQuantizeTypes) {
    for (const float value : RoundTrip(type, std::vector<float>(512))) {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u) << Name(type);
    }
  }
}

TEST(Quantize, AConstantBlockStaysConstant) {
  const std::map<TensorType, float> steps = {
      {TensorType::kF32, 0},          {TensorType::kF16, 0},        {TensorType::kBF16, 0},
      {TensorType::kQ8_0, 127},       {TensorType::kQ4_0, 8},       {TensorType::kQ4_K, 63 * 15},
      {TensorType::kQ6_K, 32 * 128},  {TensorType::kQ4_1, 1},       {TensorType::kQ5_0, 16},
      {TensorType::kQ5_1, 1},         {TensorType::kQ5_K, 63 * 31}, {TensorType::kIQ4_NL, 127},
      {TensorType::kIQ4_XS, 32 * 127}};
  for (const TensorType type : kQuantizeTypes) {
    for (const float constant : {1.0f, -1.0f, 0.3f, -0.01f, 12345.0f}) {
      const std::vector<float> back = RoundTrip(type, std::vector<float>(256, constant));
      for (const float value : back) {
        ASSERT_EQ(value, back[0]) << Name(type);
        // A 16-bit float's rounding, of the scale or of the value, and that of a subnormal half
        // times as many steps as the type's range has.
        ASSERT_NEAR(value, constant, std::fabs(constant) * 0x1p-8f + steps.at(type) * 0x1p-25f)
            << Name(type);
      }
    }
  }
}

TEST(Quantize, OneOutlierAmongZerosSurvives) {
  for (const TensorType type : kQuantizeTypes) {
    for (const float outlier : {1000.0f, -1000.0f}) {
      for (const size_t at : {size_t{0}, size_t{31}, size_t{100}, size_t{255}}) {
        std::vector<float> values(256);
        values[at] = outlier;
        const std::vector<float> back = RoundTrip(type, values);
        // Of IQ4's values none is zero: the smallest is a 127th of the largest.
        const bool no_zero = type == TensorType::kIQ4_NL || type == TensorType::kIQ4_XS;
        const float tolerance = 1000 * (no_zero ? 1 / 127.0f + 0x1p-9f : 0x1p-9f);
        for (size_t i = 0; i < back.size(); ++i) {
          ASSERT_NEAR(back[i], values[i], tolerance) << Name(type) << " " << at << " " << i;
        }
      }
    }
  }
}

// Far below what a scale can hold the block becomes zero; it never becomes larger, or NaN.
TEST(Quantize, TinyValuesShrinkButNeverExplode) {
  std::mt19937 random(9);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int exponent = -149; exponent <= -10; ++exponent) {
    std::vector<float> values(256);
    for (float& value : values) value = std::ldexp(uniform(random), exponent);
    values[17] = std::ldexp(1.0f, exponent);
    for (const TensorType type : kQuantizeTypes) {
      const std::vector<float> back = RoundTrip(type, values);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_LE(std::fabs(back[i] - values[i]), std::ldexp(2.0f, exponent))
            << Name(type) << " 2^" << exponent << " element " << i;
      }
    }
  }
}

TEST(Quantize, WhatIsBelowTheSmallestScaleIsTheZeroBlock) {
  for (const float magnitude : {std::numeric_limits<float>::denorm_min(), 1e-39f, 1e-20f, 1e-8f}) {
    std::vector<float> values(256);
    for (int i = 0; i < 256; ++i) values[i] = magnitude * static_cast<float>(i % 5 - 2);
    for (const TensorType type : kQuantizeBlockTypes) {
      EXPECT_EQ(MustQuantize(type, values), MustQuantize(type, std::vector<float>(256)))
          << Name(type) << " " << magnitude;
    }
  }
}

// Sub-blocks of very different size in one super-block: the small ones vanish, quietly.
TEST(Quantize, SmallNeighboursOfLargeSubBlocksStaySmall) {
  std::vector<float> values = NormalValues(10, 256, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], -40 * static_cast<int>(i / 32));
  }
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ6_K}) {
    const std::vector<float> back = RoundTrip(type, values);
    for (size_t i = 32; i < values.size(); ++i) ASSERT_LE(std::fabs(back[i]), 1e-6f) << Name(type);
  }
}

TEST(Quantize, NearlyConstantBlocksFitTheConstant) {
  for (const float constant : {1.0f, -1.0f}) {
    std::vector<float> values = NormalValues(11, 256, 1e-6f);
    for (float& value : values) value += constant;
    for (const TensorType type : kQuantizeBlockTypes) {
      for (const float value : RoundTrip(type, values)) {
        ASSERT_NEAR(value, constant, 0x1p-9f) << Name(type);
      }
    }
  }
}

TEST(Quantize, RefusesWhatWouldSpoilABlockAndNamesTheElement) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const TensorType type : kQuantizeBlockTypes) {
    for (const auto& [bad, text] : std::vector<std::pair<float, std::string>>{
             {infinity, "inf"}, {-infinity, "-inf"}, {NAN, "nan"}}) {
      for (const size_t at : {size_t{0}, size_t{300}, size_t{511}}) {
        std::vector<float> values(512, 1.0f);
        values[at] = bad;
        std::vector<std::byte> blocks(RowBytes(type, values.size()), std::byte{0xaa});
        const absl::Status status = Quantize(type, values, blocks);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(Message(status), Concat("element ", at, " is ", text, ", which ", Name(type),
                                          " cannot hold; keep this tensor in F16, BF16 or F32"));
        EXPECT_EQ(std::ranges::count(blocks, std::byte{0xaa}), std::ssize(blocks));
      }
    }
  }
}

TEST(Quantize, PlainTypesKeepInfinityAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    const std::vector<float> back = RoundTrip(type, {infinity, -infinity, NAN, 1.0f});
    EXPECT_EQ(back[0], infinity);
    EXPECT_EQ(back[1], -infinity);
    EXPECT_TRUE(std::isnan(back[2]));
    EXPECT_EQ(back[3], 1.0f);
  }
}

// The largest magnitude each type takes, and the next.
TEST(Quantize, HoldsItsLimitAndRefusesTheNextFloat) {
  const std::map<TensorType, float> limits = {
      {TensorType::kF16, std::nextafter(65520.0f, 0.0f)},
      {TensorType::kBF16, std::bit_cast<float>(0x7f7f7fffu)},
      {TensorType::kQ8_0, 127 * 65504.0f},
      {TensorType::kQ4_0, 8 * 65504.0f},
      {TensorType::kQ4_K, 63 * 65504.0f},
      {TensorType::kQ6_K, 32 * 128 * 65504.0f},
  };
  for (const auto& [type, limit] : limits) {
    const size_t short_row = std::max<size_t>(32, Info(type).block_elements);
    for (const auto& [sign, count] : {std::pair{1.0f, size_t{256}}, {-1.0f, short_row}}) {
      std::vector<float> values(count);
      values[3] = sign * limit;
      values[4] = -sign * limit / 3;
      const std::vector<float> back = RoundTrip(type, values);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(std::fabs(back[i] - values[i]) <= limit * 0.07f) << Name(type) << " " << i;
      }
      values[3] = sign * std::nextafter(limit, std::numeric_limits<float>::infinity());
      std::vector<std::byte> blocks(RowBytes(type, values.size()));
      const absl::Status status = Quantize(type, values, blocks);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << Name(type);
      EXPECT_EQ(Message(status).substr(0, 13), "element 3 is ");
    }
  }
  std::vector<std::byte> half(2);
  EXPECT_EQ(Message(Quantize(TensorType::kF16, std::vector<float>{1e6f}, half)),
            "element 0 is 1e+06, F16 holds magnitudes up to 65519.996; keep this tensor in BF16 or "
            "F32");
}

// A fit may lie beyond the floats it fits; its scale must not become infinite.
TEST(Quantize, BlocksThatReachTheLimitStayFinite) {
  const std::map<TensorType, float> limits = {{TensorType::kQ8_0, 127 * 65504.0f},
                                              {TensorType::kQ4_0, 8 * 65504.0f},
                                              {TensorType::kQ4_K, 63 * 65504.0f},
                                              {TensorType::kQ6_K, 32 * 128 * 65504.0f}};
  for (const auto& [type, limit] : limits) {
    for (uint32_t seed = 20; seed < 60; ++seed) {
      std::vector<float> values = NormalValues(seed, 256, limit / 3);
      for (float& value : values) value = std::clamp(value, -limit, limit);
      const std::vector<float> back = RoundTrip(type, values);
      for (int i = 0; i < 256; ++i) {
        ASSERT_TRUE(std::fabs(back[i] - values[i]) <= limit * 0.15f) << Name(type) << " " << i;
      }
    }
  }
}

// Whatever the floats' bits: an answer or an error, never a NaN out of numbers. (A scale just above
// half the smallest half is stored as twice what it is.)
TEST(Quantize, AnyBitsGiveNumbersOrAnError) {
  std::mt19937 random(12);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t highest = 1 + static_cast<uint32_t>(random()) % 160;  // exponents below this
    std::vector<float> values(256);
    for (float& value : values) {
      const auto bits = static_cast<uint32_t>(random());
      const uint32_t exponent = static_cast<uint32_t>(random()) % highest;
      value = std::bit_cast<float>((bits & 0x807fffffu) | exponent << 23);
    }
    const float largest = LargestMagnitude(values);
    for (const TensorType type : kQuantizeBlockTypes) {
      std::vector<std::byte> blocks(RowBytes(type, values.size()));
      if (!Quantize(type, values, blocks).ok()) continue;
      for (const float value : MustDequantize(type, blocks)) {
        ASSERT_TRUE(std::fabs(value) <= largest * 2) << Name(type) << " of up to " << largest;
      }
    }
  }
}

}  // namespace
}  // namespace outrider
