// What Quantize() makes of ordinary values, beside ggml and by law. Values that hurt it are those of
// quantize_hard_values_test.cc.
#include "common/formats/tensors/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/formats/quantize_round_trip.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

// ---- Against ggml. The inputs are those of tests/golden/quantize.py, float for float.

std::vector<float> Bell() {
  std::vector<float> values(1 << 16);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z = z ^ (z >> 31);
    const uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    values[i] = static_cast<float>(static_cast<int64_t>(sum) - 131070) * 0x1p-22f;
  }
  return values;
}

std::map<std::string, std::vector<float>> Inputs() {
  const std::vector<float> bell = Bell();
  std::map<std::string, std::vector<float>> inputs;
  for (const char* name : {"bell", "uneven", "outliers", "peaked", "positive", "negative"}) {
    inputs[name] = bell;
  }
  for (size_t i = 0; i < bell.size(); ++i) {
    const float v = bell[i];
    inputs["uneven"][i] = std::ldexp(v, -static_cast<int>(i / 32 % 8));
    if (i % 97 == 0) inputs["outliers"][i] = v * 16;
    inputs["peaked"][i] = v * v * v * 0x1p14f;
    inputs["positive"][i] = std::fabs(v) + 0x1p-6f;
    inputs["negative"][i] = v * 0.125f - 1;
  }
  return inputs;
}

std::string Fnv(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

double RmsError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double sum = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = static_cast<double>(actual[i]) - expected[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

struct GoldenLine {
  std::string kind, type, input, value;
};

std::vector<GoldenLine> ReadGoldenLines(const std::string& kind) {
  std::ifstream file(TestFile("quantize/ggml.txt"));
  std::vector<GoldenLine> lines;
  for (GoldenLine line; file >> line.kind >> line.type >> line.input >> line.value;) {
    if (line.kind == kind) lines.push_back(line);
  }
  return lines;
}

// An error of ours is at most 2 % larger than ggml's.
TEST(QuantizeAgainstGgml, LosesNoMoreThanItsSearch) {
  const std::map<std::string, std::vector<float>> inputs = Inputs();
  const std::vector<GoldenLine> lines = ReadGoldenLines("rms");
  ASSERT_EQ(lines.size(), 2 * inputs.size());
  for (const GoldenLine& line : lines) {
    const std::vector<float>& values = inputs.at(line.input);
    const double error = RmsError(RoundTrip(*TensorTypeFromName(line.type), values), values);
    const double of_ggml = std::stod(line.value);
    EXPECT_TRUE(error <= 1.02 * of_ggml)
        << line.type << " of " << line.input << ": " << error << " against " << of_ggml;
    RecordProperty(line.type + "_" + line.input, std::to_string(error / of_ggml));
  }
}

TEST(QuantizeAgainstGgml, MakesItsBytesWhereThereIsNothingToChoose) {
  const std::map<std::string, std::vector<float>> inputs = Inputs();
  const std::vector<GoldenLine> lines = ReadGoldenLines("fnv");
  ASSERT_EQ(lines.size(), 4 * inputs.size());
  for (const GoldenLine& line : lines) {
    const TensorType type = *TensorTypeFromName(line.type);
    EXPECT_EQ(Fnv(MustQuantize(type, inputs.at(line.input))), line.value)
        << line.type << " of " << line.input;
  }
}

// ---- Laws

// These bytes may not change with compiler, optimisation or machine; if the search is improved on
// purpose, they do.
TEST(Quantize, IsTheSameEverywhere) {
  const std::map<std::string, std::vector<float>> inputs = Inputs();
  const auto hash = [&](TensorType type, const char* input) {
    return Fnv(MustQuantize(type, inputs.at(input)));
  };
  EXPECT_EQ(hash(TensorType::kQ4_K, "bell"), "841a41516bba6253");
  EXPECT_EQ(hash(TensorType::kQ4_K, "outliers"), "dc38ae7cfe985155");
  EXPECT_EQ(hash(TensorType::kQ4_K, "negative"), "3716e03177376115");
  EXPECT_EQ(hash(TensorType::kQ4_K, "positive"), "ab13a37c7b4c45ef");
  EXPECT_EQ(hash(TensorType::kQ6_K, "bell"), "532a0af4b16fc133");
  EXPECT_EQ(hash(TensorType::kQ6_K, "outliers"), "227a67e7bae07ef6");
  EXPECT_EQ(hash(TensorType::kQ6_K, "negative"), "75227fac9bdcdb2d");
  EXPECT_EQ(hash(TensorType::kQ4_1, "outliers"), "807e5426822a2619");
  EXPECT_EQ(hash(TensorType::kQ5_0, "outliers"), "80f38f13814a14d7");
  EXPECT_EQ(hash(TensorType::kQ5_1, "outliers"), "167426c3d0788838");
  EXPECT_EQ(hash(TensorType::kQ5_K, "bell"), "8ff9be8ed9608452");
  EXPECT_EQ(hash(TensorType::kQ5_K, "outliers"), "da3e598d74bf652c");
  EXPECT_EQ(hash(TensorType::kIQ4_NL, "bell"), "3d5b2f19ad2c4856");
  EXPECT_EQ(hash(TensorType::kIQ4_NL, "outliers"), "85b3c744bb315c44");
  EXPECT_EQ(hash(TensorType::kIQ4_XS, "bell"), "21a4a8e0162cfbe9");
  EXPECT_EQ(hash(TensorType::kIQ4_XS, "outliers"), "2db80f7780c517a9");
}

TEST(Quantize, TreatsEachBlockByItself) {
  const std::vector<float> values = Normal(1, 1024, 0.02f);
  for (const TensorType type : kTypes) {
    const TensorTypeInfo& info = Info(type);
    const std::vector<std::byte> whole = MustQuantize(type, values);
    std::vector<std::byte> pieces;
    for (size_t at = 0; at < values.size(); at += info.block_elements) {
      const std::vector<std::byte> piece =
          MustQuantize(type, {values.begin() + at, values.begin() + at + info.block_elements});
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(whole, pieces) << info.name;
  }
}

TEST(Quantize, WritesAtAnyAlignment) {
  const std::vector<float> values = Normal(2, 512, 0.02f);
  for (const TensorType type : kTypes) {
    const std::vector<std::byte> expected = MustQuantize(type, values);
    for (size_t shift = 1; shift < 8; ++shift) {
      std::vector<std::byte> moved(shift + expected.size());
      ASSERT_TRUE(Quantize(type, values, std::span(moved).subspan(shift)).ok());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), moved.begin() + shift));
    }
  }
}

TEST(Quantize, KnowsTypesThatCanBeReadBack) {
  for (uint32_t id = 0; id < 64; ++id) {
    const std::optional<TensorType> type = TensorTypeFromId(id);
    if (!type) continue;
    const bool listed = std::ranges::find(kTypes, *type) != kTypes.end();
    EXPECT_EQ(CanQuantize(*type), listed) << Name(*type);
    EXPECT_TRUE(!listed || CanDequantize(*type)) << Name(*type);
  }
  std::vector<std::byte> blocks(84);
  const absl::Status status = Quantize(TensorType::kQ2_K, std::vector<float>(256), blocks);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(status),
            "cannot make Q2_K of floats; choose one of F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 "
            "Q4_K Q5_K Q6_K IQ4_NL IQ4_XS");
}

TEST(Quantize, OfNothingIsNothing) {
  for (const TensorType type : kTypes) EXPECT_TRUE(Quantize(type, {}, {}).ok());
}

// Half a unit in the last place: 11 significant bits above 2^-14, steps of 2^-24 below.
TEST(Quantize, F16AndBF16AreOffByHalfAPlaceAtMost) {
  for (const float sigma : {1e-7f, 1e-5f, 1.0f, 1000.0f}) {
    const std::vector<float> values = Normal(3, 4096, sigma);
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
    const std::vector<float> values = Normal(4, 4096, sigma);
    const std::vector<float> back = RoundTrip(TensorType::kQ8_0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float d = Largest(std::span(values).subspan(i / 32 * 32, 32)) / 127;
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
    const std::vector<float> values = Normal(5, 4096, sigma);
    const std::vector<float> back = RoundTrip(TensorType::kQ4_0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const float> block = std::span(values).subspan(i / 32 * 32, 32);
      const float d = Largest(block) / 8;
      const bool far_end = std::fabs(values[i]) > 7.5f * d;
      const float bound = d * (far_end ? 1.0f : 0.5f) + StepError(d, 8) + d * 8 * 0x1p-21f;
      EXPECT_TRUE(std::fabs(back[i] - values[i]) <= bound)
          << values[i] << " came back as " << back[i] << ", bound " << bound;
    }
  }
}

TEST(Quantize, FiveBitsAndMinimaAreOffByHalfAStep) {
  for (const float sigma : {1e-3f, 1.0f, 1e3f}) {
    const std::vector<float> values = Normal(7, 4096, sigma);
    for (const auto& [type, steps] : std::map<TensorType, float>{
             {TensorType::kQ4_1, 15}, {TensorType::kQ5_1, 31}, {TensorType::kQ5_0, 16}}) {
      const std::vector<float> back = RoundTrip(type, values);
      for (size_t i = 0; i < values.size(); ++i) {
        const std::span<const float> block = std::span(values).subspan(i / 32 * 32, 32);
        const auto [low, high] = std::ranges::minmax(block);
        const bool symmetric = type == TensorType::kQ5_0;
        const float d = (symmetric ? Largest(block) : high - low) / steps;
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

// What a bit more, or a better fitting set of values, is worth: on weights as they are.
TEST(Quantize, MoreBitsLoseLess) {
  const std::map<std::string, std::vector<float>> inputs = Inputs();
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

// With the scales as stored, every element gets the nearest of the values it can have. What these
// are is found by setting all elements of the block to one number after the other.
TEST(Quantize, SuperBlocksRoundEveryElementToTheNearest) {
  const std::vector<float> values = Normal(7, 256 * 16, 0.02f);
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
    const std::vector<float> values = Normal(8, 256 * 64, sigma);
    const std::vector<float> q4 = RoundTrip(TensorType::kQ4_K, values);
    const std::vector<float> q6 = RoundTrip(TensorType::kQ6_K, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float largest = Largest(std::span(values).subspan(i / 256 * 256, 256));
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

}  // namespace
}  // namespace outrider
