// What tests of Quantize() share: the types it writes, and values that go through one and come
// back.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tensors/tensor_type.h"
#include "gtest/gtest.h"

namespace outrider {

inline constexpr std::array kBlockTypes = {
    TensorType::kQ8_0, TensorType::kQ4_0,   TensorType::kQ4_1, TensorType::kQ5_0,
    TensorType::kQ5_1, TensorType::kIQ4_NL, TensorType::kQ4_K, TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_XS};
inline constexpr std::array kTypes = {TensorType::kF32,   TensorType::kF16,  TensorType::kBF16,
                                      TensorType::kQ8_0,  TensorType::kQ4_0, TensorType::kQ4_1,
                                      TensorType::kQ5_0,  TensorType::kQ5_1, TensorType::kIQ4_NL,
                                      TensorType::kQ4_K,  TensorType::kQ5_K, TensorType::kQ6_K,
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

inline float Largest(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

inline std::vector<float> Normal(uint32_t seed, size_t count, float sigma) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace outrider
