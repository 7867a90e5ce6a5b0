#include "common/formats/tensors/dequantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/half.h"
#include "gtest/gtest.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

// Made by tests/golden/dequantize.py with gguf-py and libggml.
std::vector<std::byte> ReadGolden(const std::string& name) {
  const std::string path = TestFile("dequantize/" + name);
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " is missing";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<float> ReadGoldenFloats(const std::string& name) {
  const std::vector<std::byte> bytes = ReadGolden(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Compares bits: -0 is not 0.
void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << ": " << actual[i] << " for " << expected[i];
  }
}

class DequantizeEach : public testing::TestWithParam<TensorType> {};

TEST_P(DequantizeEach, GivesTheBitsOfGgml) {
  const std::string name(Name(GetParam()));
  const std::vector<std::byte> blocks = ReadGolden(name + ".blocks");
  const std::vector<float> expected = ReadGoldenFloats(name + ".f32");
  ASSERT_GE(expected.size(), 64u);
  ASSERT_EQ(blocks.size(), RowBytes(GetParam(), expected.size()));
  std::vector<float> values(expected.size());
  ASSERT_TRUE(Dequantize(GetParam(), blocks, values).ok());
  ExpectSameBits(values, expected);
}

TEST_P(DequantizeEach, ReadsBlocksAtAnyAlignment) {
  const std::string name(Name(GetParam()));
  const std::vector<std::byte> blocks = ReadGolden(name + ".blocks");
  const std::vector<float> expected = ReadGoldenFloats(name + ".f32");
  for (size_t shift = 1; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift + blocks.size());
    std::memcpy(moved.data() + shift, blocks.data(), blocks.size());
    std::vector<float> values(expected.size());
    ASSERT_TRUE(Dequantize(GetParam(), std::span(moved).subspan(shift), values).ok());
    ExpectSameBits(values, expected);
  }
}

TEST_P(DequantizeEach, ReadsEachBlockByItself) {
  const std::string name(Name(GetParam()));
  const TensorTypeInfo& info = Info(GetParam());
  const std::vector<std::byte> blocks = ReadGolden(name + ".blocks");
  const std::vector<float> expected = ReadGoldenFloats(name + ".f32");
  std::vector<float> values;
  for (size_t at = 0; at < blocks.size(); at += info.block_bytes) {
    // Exactly as long as the block, so that AddressSanitizer sees a byte too many.
    const std::vector<std::byte> block(blocks.begin() + at, blocks.begin() + at + info.block_bytes);
    std::vector<float> of_block(info.block_elements);
    ASSERT_TRUE(Dequantize(GetParam(), block, of_block).ok());
    values.insert(values.end(), of_block.begin(), of_block.end());
  }
  ExpectSameBits(values, expected);
}

// ---- Every vector of every book

// Where a block of each type keeps its scale and its minimum's, as halves.
std::vector<size_t> HalfOffsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    case TensorType::kTQ1_0:
      return {52};
    case TensorType::kTQ2_0:
      return {64};
    case TensorType::kMXFP4:
    case TensorType::kIQ1_M:
      return {};  // a power of two in a byte; in four parts
    default:
      return {0};
  }
}

void PutHalf(std::span<std::byte> block, size_t offset, float value) {
  const uint16_t half = FloatToHalf(value);
  block[offset] = static_cast<std::byte>(half & 255);
  block[offset + 1] = static_cast<std::byte>(half >> 8);
}

uint64_t SplitMix(uint64_t count) {
  uint64_t z = count * 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

// tests/golden/dequantize.py makes the same.
std::vector<std::byte> CountedBlocks(TensorType type, size_t count) {
  const TensorTypeInfo& info = Info(type);
  std::vector<std::byte> bytes(count * info.block_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(SplitMix(i / 8 + 1) >> i % 8 * 8);
  }
  const std::vector<size_t> offsets = HalfOffsets(type);
  for (size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    const std::span<std::byte> block = std::span(bytes).subspan(at, info.block_bytes);
    for (size_t i = 0; i < offsets.size(); ++i) PutHalf(block, offsets[i], i == 0 ? 1.0f : 0.25f);
    // Scales that are no halves of their own, so that no value is infinity or NaN.
    if (type == TensorType::kMXFP4) block[0] = std::min(block[0], std::byte{250});
    if (type == TensorType::kIQ1_M) block[55] &= std::byte{0xbf};
  }
  return bytes;
}

// FNV-1a over the bits of floats.
std::string HashOf(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// Sixteen blocks meet few of the vectors in the books of IQ types, of which IQ1's has 2048; a
// thousand meet them all.
class DequantizeBlocks : public DequantizeEach {};

TEST_P(DequantizeBlocks, GiveTheBitsOfGgmlForAThousandRandomOnes) {
  std::istringstream lines(ReadFile(TestFile("dequantize/counted.txt")));
  std::string name, expected;
  while (lines >> name >> expected && name != Name(GetParam())) continue;
  ASSERT_EQ(name, Name(GetParam())) << "tests/golden/dequantize.py has left it out";
  constexpr size_t kCount = 1000;
  std::vector<float> values(kCount * Info(GetParam()).block_elements);
  ASSERT_TRUE(Dequantize(GetParam(), CountedBlocks(GetParam(), kCount), values).ok());
  EXPECT_EQ(HashOf(values), expected);
}

TEST_P(DequantizeEach, OfNothingIsNothing) {
  EXPECT_TRUE(CanDequantize(GetParam()));
  EXPECT_TRUE(Dequantize(GetParam(), {}, {}).ok());
}

std::string NameOfType(const testing::TestParamInfo<TensorType>& each) {
  return std::string(Name(each.param));
}

INSTANTIATE_TEST_SUITE_P(Numbers, DequantizeEach,
                         testing::Values(TensorType::kF32, TensorType::kF16, TensorType::kBF16),
                         NameOfType);

constexpr TensorType kBlockTypes[] = {
    TensorType::kQ8_0,    TensorType::kQ4_0,    TensorType::kQ4_1,   TensorType::kQ5_0,
    TensorType::kQ5_1,    TensorType::kQ2_K,    TensorType::kQ3_K,   TensorType::kQ4_K,
    TensorType::kQ5_K,    TensorType::kQ6_K,    TensorType::kIQ4_NL, TensorType::kIQ4_XS,
    TensorType::kMXFP4,   TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S,
    TensorType::kIQ3_XXS, TensorType::kIQ3_S,   TensorType::kIQ1_S,  TensorType::kIQ1_M,
    TensorType::kTQ1_0,   TensorType::kTQ2_0,
};
INSTANTIATE_TEST_SUITE_P(Types, DequantizeEach, testing::ValuesIn(kBlockTypes), NameOfType);
INSTANTIATE_TEST_SUITE_P(Types, DequantizeBlocks, testing::ValuesIn(kBlockTypes), NameOfType);

TEST(Dequantize, RefusesOtherTypesByName) {
  std::vector<std::byte> blocks(292);
  std::vector<float> values(256);
  EXPECT_FALSE(CanDequantize(TensorType::kQ8_K));
  const absl::Status status = Dequantize(TensorType::kQ8_K, blocks, values);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(status).substr(0, 34), "cannot turn Q8_K into floats; conv");
}

// A second, hand-sized oracle: block byte k is (37 k + 11) & 255 with the scale then set to 0.5 and
// the minimum's to 0.25; the values are those of ggml's C code.
struct Landmarks {
  TensorType type;
  std::vector<size_t> half_offsets;  // of the scale, then of the minimum's
  std::vector<std::pair<size_t, float>> values;
  double sum;
};

void ExpectLandmarks(const std::vector<Landmarks>& all) {
  for (const Landmarks& landmarks : all) {
    SCOPED_TRACE(Name(landmarks.type));
    const TensorTypeInfo& info = Info(landmarks.type);
    std::vector<std::byte> block(info.block_bytes);
    for (size_t k = 0; k < block.size(); ++k) block[k] = static_cast<std::byte>(37 * k + 11);
    for (size_t i = 0; i < landmarks.half_offsets.size(); ++i) {
      PutHalf(block, landmarks.half_offsets[i], i == 0 ? 0.5f : 0.25f);
    }
    std::vector<float> values(info.block_elements);
    ASSERT_TRUE(Dequantize(landmarks.type, block, values).ok());
    for (const auto& [index, value] : landmarks.values) EXPECT_EQ(values[index], value) << index;
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), landmarks.sum);
  }
}

TEST(Dequantize, MeetsTheLandmarksOfEachLayout) {
  const std::vector<Landmarks> all = {
      {TensorType::kQ4_0, {0}, {{0, -1.5f}, {1, 1}, {16, -1.5f}, {31, 0}}, -10.5},
      {TensorType::kQ8_0, {0}, {{0, 42.5f}, {1, 61}, {16, -45.5f}, {31, -24}}, -88},
      {TensorType::kQ2_K,
       {80, 82},
       {{0, 16.5f},
        {1, 0},
        {16, -0.75f},
        {31, -0.75f},
        {32, 3.75f},
        {63, 3.25f},
        {64, 5.25f},
        {127, 21},
        {128, 3.75f},
        {255, 2.25f}},
       1029.5},
      {TensorType::kQ3_K,
       {108},
       {{0, 40.5f},
        {1, -54},
        {16, -48},
        {31, 32},
        {32, -11},
        {63, 5},
        {64, 17},
        {127, 36},
        {128, 1},
        {255, 21}},
       479},
      {TensorType::kQ4_K,
       {0, 2},
       {{0, 157.75f},
        {1, -12.75f},
        {16, 157.75f},
        {31, 80.25f},
        {32, 4},
        {63, 20},
        {64, 210.25f},
        {127, 40.5f},
        {128, 211.5f},
        {255, 24.25f}},
       27220},
      {TensorType::kQ5_K,
       {0, 2},
       {{0, 405.75f},
        {1, -12.75f},
        {16, 405.75f},
        {31, 80.25f},
        {32, 56},
        {63, 40},
        {64, 210.25f},
        {127, -1.5f},
        {128, 523.5f},
        {255, 54.25f}},
       58108},
      {TensorType::kQ6_K,
       {208},
       {{0, -715.5f},
        {1, 848},
        {16, -216},
        {31, -48},
        {32, 115.5f},
        {63, -290},
        {64, -1520},
        {127, 750},
        {128, -175.5f},
        {255, -30}},
       2306},
  };
  ExpectLandmarks(all);
}

// Computed from the layouts by themselves.
TEST(Dequantize, MeetsTheLandmarksOfNibblesThatAreLookedUp) {
  ExpectLandmarks({
      {TensorType::kIQ4_NL, {0}, {{0, -17.5f}, {1, 12.5f}, {16, -17.5f}, {31, 0.5f}}, -128.5},
      {TensorType::kIQ4_XS,
       {0},
       {{0, 32.5f},
        {1, -0.5f},
        {16, 32.5f},
        {31, 17.5f},
        {32, 227.5f},
        {63, -87.5f},
        {64, 390},
        {127, 98},
        {128, -292.5f},
        {255, -8}},
       -5502.5},
  });
}

// The scale is a power of two, of which the lowest two are subnormal floats.
TEST(Dequantize, ScalesOfMXFP4ArePowersOfTwo) {
  std::vector<std::byte> block(17);
  for (size_t k = 0; k < block.size(); ++k) block[k] = static_cast<std::byte>(37 * k + 11);
  for (int exponent = 0; exponent < 256; ++exponent) {
    block[0] = static_cast<std::byte>(exponent);
    std::vector<float> values(32);
    ASSERT_TRUE(Dequantize(TensorType::kMXFP4, block, values).ok());
    const float unit = std::ldexp(1.0f, exponent - 128);
    EXPECT_EQ(values[0], 0);
    EXPECT_EQ(values[1], 6 * unit);
    EXPECT_EQ(values[16], 3 * unit);
    EXPECT_EQ(values[31], 6 * unit);
  }
}

}  // namespace
}  // namespace outrider
