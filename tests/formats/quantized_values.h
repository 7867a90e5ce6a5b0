// What tests of quantize.h share: the types that can be made of floats, floats to make them of, the way
// there and back, and how far from themselves they come back.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tensors/tensor_type.h"
#include "gtest/gtest.h"

namespace outrider {

inline constexpr std::array kQuantizeBlockTypes = {
    TensorType::kQ8_0, TensorType::kQ4_0,   TensorType::kQ4_1, TensorType::kQ5_0,
    TensorType::kQ5_1, TensorType::kIQ4_NL, TensorType::kQ4_K, TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_XS};
inline constexpr std::array kQuantizeTypes = {
    TensorType::kF32,    TensorType::kF16,  TensorType::kBF16, TensorType::kQ8_0,
    TensorType::kQ4_0,   TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1,
    TensorType::kIQ4_NL, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K,
    TensorType::kIQ4_XS};

inline std::vector<std::byte> MustQuantize(TensorType type, const std::vector<float>& values) {
  std::vector<std::byte> blocks(RowBytes(type, values.size()));
  const absl::Status status = Quantize(type, values, blocks);
  EXPECT_TRUE(status.ok()) << status;
  return blocks;
}

inline std::vector<float> MustDequantize(TensorType type, const std::vector<std::byte>& blocks) {
  std::vector<float> values(blocks.size() / Info(type).block_bytes * Info(type).block_elements);
  EXPECT_TRUE(Dequantize(type, blocks, values).ok());
  return values;
}

inline std::vector<float> RoundTrip(TensorType type, const std::vector<float>& values) {
  return MustDequantize(type, MustQuantize(type, values));
}

inline float LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

inline double RmsError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double sum = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = static_cast<double>(actual[i]) - expected[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

inline std::vector<float> NormalValues(uint32_t seed, size_t count, float sigma) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The inputs of tests/golden/quantize.py, float for float.
inline std::vector<float> BellValues() {
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

inline std::map<std::string, std::vector<float>> QuantizeInputs() {
  const std::vector<float> bell = BellValues();
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

}  // namespace outrider
