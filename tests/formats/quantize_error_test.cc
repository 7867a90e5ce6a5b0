// How far from itself a float comes back, type by type, and what comes back as it was.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/formats/tensors/quantize.h"
#include "gtest/gtest.h"
#include "tests/formats/quantized_values.h"

namespace outrider {
namespace {

// Half a unit in the last place: 11 significant bits above 2^-14, steps of 2^-24 below.
TEST(Quantize, F16AndBF16AreOffByHalfAPlaceAtMost) {
  for (const float sigma : {1e-7f, 1e-5f, 1.0f, 1000.0f}) {
    const std::vector<float> values = NormalValues(3, 4096, sigma);
    const std::vector<float> halves = RoundTrip(TensorType::kF16, values);
    const std::vector<float> brains = RoundTrip(TensorType::kBF16, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float magnitude = std::fabs(values[i]);
      EXPECT_LE(std::fabs(halves[i] - values[i]), std::max(magnitude * 0x1p-11f, 0x1p-25f));
      EXPECT_LE(std::fabs(brains[i] - values[i]), magnitude * 0x1p-8f);
    }
  }
}

// What rounding d to a half moves an element that is `steps` times d, in units of d.
float StepError(float d, float steps) {
  return steps * std::max(d * 0x1p-11f, 0x1p-25f);
}

TEST(Quantize, Q8_0IsOffByHalfAStepAtMost) {
  for (const float sigma : {1e-6f, 1e-3f, 1.0f, 1e5f}) {
    const std::vector<float> values = NormalValues(4, 4096, sigma);
    const std::vector<float> back = RoundTrip(TensorType::kQ8_0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float d = LargestMagnitude(std::span(values).subspan(i / 32 * 32, 32)) / 127;
      const float bound = d * 0.5f + StepError(d, 127) + d * 127 * 0x1p-21f;
      EXPECT_TRUE(std::fabs(back[i] - values[i]) <= bound)
          << values[i] << " came back as " << back[i] << ", bound " << bound;
    }
  }
}

// Half a step inside the range; a whole one for an element as large as the peak and of the other
// sign, which is cut from 8 to 7.
TEST(Quantize, Q4_0IsOffByHalfAStepAndByOneAtTheFarEnd) {
  for (const float sigma : {1e-6f, 1e-3f, 1.0f, 1e4f}) {
    const std::vector<float> values = NormalValues(5, 4096, sigma);
    const std::vector<float> back = RoundTrip(TensorType::kQ4_0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const float> block = std::span(values).subspan(i / 32 * 32, 32);
      const float d = LargestMagnitude(block) / 8;
      const bool far_end = std::fabs(values[i]) > 7.5f * d;
      const float bound = d * (far_end ? 1.0f : 0.5f) + StepError(d, 8) + d * 8 * 0x1p-21f;
      EXPECT_TRUE(std::fabs(back[i] - values[i]) <= bound)
          << values[i] << " came back as " << back[i] << ", bound " << bound;
    }
  }
}

TEST(Quantize, FiveBitsAndMinimaAreOffByHalfAStep) {
  for (const float sigma : {1e-3f, 1.0f, 1e3f}) {
    const std::vector<float> values = NormalValues(7, 4096, sigma);
    for (const auto& [type, steps] : std::map<TensorType, float>{
             {TensorType::kQ4_1, 15}, {TensorType::kQ5_1, 31}, {TensorType::kQ5_0, 16}}) {
      const std::vector<float> back = RoundTrip(type, values);
      for (size_t i = 0; i < values.size(); ++i) {
        const std::span<const float> block = std::span(values).subspan(i / 32 * 32, 32);
        const auto [low, high] = std::ranges::minmax(block);
        const bool symmetric = type == TensorType::kQ5_0;
        const float d = (symmetric ? LargestMagnitude(block) : high - low) / steps;
        // The far end of Q5_0 is cut from 16 to 15.
        const bool far_end = symmetric && std::fabs(values[i]) > 15.5f * d;
        const float minimum = symmetric ? 0 : std::max(std::fabs(low) * 0x1p-11f, 0x1p-25f);
        const float bound =
            d * (far_end ? 1.0f : 0.5f) + StepError(d, steps) + minimum + d * steps * 0x1p-21f;
        EXPECT_TRUE(std::fabs(back[i] - values[i]) <= bound)
            << Name(type) << ": " << values[i] << " came back as " << back[i] << ", bound "
            << bound;
      }
    }
  }
}

// With the scales as stored, every element gets the nearest of the values it can have. What these
// are is found by setting all elements of the block to one number after the other.
TEST(Quantize, SuperBlocksRoundEveryElementToTheNearest) {
  const std::vector<float> values = NormalValues(7, 256 * 16, 0.02f);
  for (size_t at = 0; at < values.size(); at += 256) {
    const std::vector<float> block(values.begin() + at, values.begin() + at + 256);
    for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ6_K}) {
      const std::vector<std::byte> blocks = MustQuantize(type, block);
      const std::vector<float> back = MustDequantize(type, blocks);
      std::vector<float> nearest(256, std::numeric_limits<float>::infinity());
      for (int q = 0; q < (type == TensorType::kQ4_K ? 16 : 64); ++q) {
        std::vector<std::byte> uniform = blocks;
        const auto low = static_cast<std::byte>(q % 16 * 0x11);
        const auto high = static_cast<std::byte>(q / 16 * 0x55);
        if (type == TensorType::kQ4_K) {
          std::fill(uniform.begin() + 16, uniform.end(), low);
        } else {
          std::fill(uniform.begin(), uniform.begin() + 128, low);
          std::fill(uniform.begin() + 128, uniform.begin() + 192, high);
        }
        const std::vector<float> candidates = MustDequantize(type, uniform);
        for (int i = 0; i < 256; ++i) {
          nearest[i] = std::min(nearest[i], std::fabs(candidates[i] - block[i]));
        }
      }
      for (int i = 0; i < 256; ++i) {
        EXPECT_LE(std::fabs(back[i] - block[i]), nearest[i] + 1e-7f) << Name(type) << " " << i;
      }
    }
  }
}

// A fitted grid is at least 14 (31.1) steps wide and off by less than one; rounding the scale to
// one of 63 (127) steps moves the far end by half of that times 15 (32), rounding the offset by
// half.
TEST(Quantize, SuperBlocksStayWithinTheirSteps) {
  for (const float sigma : {1e-3f, 1.0f, 1e4f}) {
    const std::vector<float> values = NormalValues(8, 256 * 64, sigma);
    const std::vector<float> q4 = RoundTrip(TensorType::kQ4_K, values);
    const std::vector<float> q6 = RoundTrip(TensorType::kQ6_K, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float largest = LargestMagnitude(std::span(values).subspan(i / 256 * 256, 256));
      const float q4_step = 2 * largest / 14;
      const float q4_bound = q4_step * (1 + 15 * 0.5f / 63) + largest * 0.5f / 63 +
                             StepError(q4_step / 63, 15 * 63) + StepError(largest / 63, 63);
      EXPECT_TRUE(std::fabs(q4[i] - values[i]) <= q4_bound) << q4[i] << " for " << values[i];
      const float q6_step = largest / 31.1f;
      const float q6_bound = q6_step * (1 + 32 * 0.5f / 127) + StepError(q6_step / 128, 32 * 128);
      EXPECT_TRUE(std::fabs(q6[i] - values[i]) <= q6_bound) << q6[i] << " for " << values[i];
    }
  }
}

// What a bit more, or a better fitting set of values, is worth: on weights as they are.
TEST(Quantize, MoreBitsLoseLess) {
  const std::map<std::string, std::vector<float>> inputs = QuantizeInputs();
  for (const char* input : {"bell", "outliers", "peaked"}) {
    const std::vector<float>& values = inputs.at(input);
    const auto error = [&](TensorType type) { return RmsError(RoundTrip(type, values), values); };
    EXPECT_TRUE(error(TensorType::kQ5_0) <= 0.55 * error(TensorType::kQ4_0)) << input;
    EXPECT_TRUE(error(TensorType::kQ5_1) <= 0.55 * error(TensorType::kQ4_1)) << input;
    EXPECT_TRUE(error(TensorType::kQ5_K) <= 0.55 * error(TensorType::kQ4_K)) << input;
    EXPECT_TRUE(error(TensorType::kIQ4_NL) <= 0.95 * error(TensorType::kQ4_0)) << input;
    EXPECT_TRUE(error(TensorType::kIQ4_XS) <= 1.05 * error(TensorType::kIQ4_NL)) << input;
  }
}

// ---- Without an error

TEST(Quantize, SimpleBlocksReadBackWhatTheyCanHold) {
  std::vector<float> eights(32);
  std::vector<float> fours(32);
  for (int i = 0; i < 32; ++i) {
    eights[i] = 0x1.8p-7f * static_cast<float>(i * 8 - 121);  // -121 to 127
    fours[i] = -0x1.4p-9f * static_cast<float>(i % 16 - 8);
  }
  EXPECT_EQ(RoundTrip(TensorType::kQ8_0, eights), eights);
  EXPECT_EQ(RoundTrip(TensorType::kQ4_0, fours), fours);
}

TEST(Quantize, Q8_0RoundsHalvesAwayFromZero) {
  std::vector<float> values(32);
  values[0] = 127;  // so that a step is one
  values[1] = 0.5f;
  values[2] = -0.5f;
  values[3] = 2.5f;
  values[4] = -2.5f;
  values[5] = std::nextafter(0.5f, 0.0f);
  std::vector<float> expected(32);
  std::ranges::copy(std::array{127.0f, 1.0f, -1.0f, 3.0f, -3.0f, 0.0f}, expected.begin());
  EXPECT_EQ(RoundTrip(TensorType::kQ8_0, values), expected);
}

// Blocks whose sub-blocks use their whole range are found again: no other grid fits without error.
TEST(Quantize, SuperBlocksReadBackWhatTheyCanHold) {
  std::mt19937 random(6);
  const auto byte = [&] { return static_cast<std::byte>(random() & 255); };
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> q4(144);
    std::ranges::generate(q4, byte);
    q4[0] = q4[2] = std::byte{0x40};
    q4[1] = q4[3] = std::byte{0x1c};                    // both steps 2^-8 + a little
    q4[4] = std::byte{63};                              // the largest scale
    q4[8] = std::byte{63};                              // the largest minimum
    for (int i = 5; i < 8; ++i) q4[i] |= std::byte{1};  // no scale of zero
    for (int i = 12; i < 16; ++i) q4[i] |= std::byte{1};
    for (int pair = 0; pair < 4; ++pair) {  // every sub-block has a 0 and a 15
      q4[16 + 32 * pair] = std::byte{0x0f};
      q4[16 + 32 * pair + 1] = std::byte{0xf0};
    }
    const std::vector<float> q4_values = MustDequantize(TensorType::kQ4_K, q4);
    EXPECT_EQ(RoundTrip(TensorType::kQ4_K, q4_values), q4_values);

    std::vector<std::byte> q6(210);
    std::ranges::generate(q6, byte);
    q6[208] = std::byte{0x40};
    q6[209] = std::byte{0x1c};
    for (int i = 0; i < 16; ++i) {
      if (q6[192 + i] == std::byte{0} || q6[192 + i] == std::byte{128}) q6[192 + i] = std::byte{7};
    }
    q6[192] = std::byte{128};       // the largest scale is -128
    for (const int at : {0, 16}) {  // every sub-block has a zero, which stands for -32
      for (int n = 0; n < 2; ++n) {
        q6[64 * n + at] = q6[64 * n + 32 + at] = q6[128 + 32 * n + at] = std::byte{0};
      }
    }
    const std::vector<float> q6_values = MustDequantize(TensorType::kQ6_K, q6);
    EXPECT_EQ(RoundTrip(TensorType::kQ6_K, q6_values), q6_values);
  }
}

}  // namespace
}  // namespace outrider
