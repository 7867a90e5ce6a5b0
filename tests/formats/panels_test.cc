#include "common/formats/tensors/panels.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Dims = std::vector<uint64_t>;

constexpr TensorType kTypesWithPanels[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K, TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4};

std::vector<std::byte> RandomBytes(size_t count) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Panels, GiveRowsBackToTheBit) {
  for (const TensorType type : kTypesWithPanels) {
    const uint32_t block = Info(type).block_elements;
    for (const uint32_t blocks : {1u, 3u, 9u}) {
      for (const uint32_t count : {1u, 15u, 16u}) {
        const uint32_t inputs = blocks * block;
        const size_t row_bytes = RowBytes(type, inputs);
        const std::vector<std::byte> rows = RandomBytes(count * row_bytes);
        std::vector<std::byte> panel(PanelBytes(type, inputs));
        PackPanel(type, inputs, rows, panel);
        std::vector<std::byte> back(rows.size());
        for (uint32_t n = 0; n < count; ++n) {
          UnpackRun(type, inputs, panel.data(), n, 0, inputs, back.data() + n * row_bytes);
        }
        EXPECT_EQ(back, rows) << Name(type) << ", " << count << " rows of " << inputs;
        // Any blocks of a row are those blocks.
        const uint32_t first = (blocks - 1) * block;
        std::vector<std::byte> last(RowBytes(type, block));
        UnpackRun(type, inputs, panel.data(), count - 1, first, block, last.data());
        EXPECT_TRUE(std::equal(last.rbegin(), last.rend(), rows.rbegin())) << Name(type);
      }
    }
  }
}

TEST(Panels, AreAsLargeAsTheirRows) {
  for (const TensorType type : kTypesWithPanels) {
    const uint64_t exponents = type == TensorType::kMXFP4 ? 64 * 2048 / 32 : 0;
    EXPECT_EQ(PackedBytes(type, 64, 2048), 64 * RowBytes(type, 2048) + exponents) << Name(type);
  }
  // Up to the padding of the last panel's outputs, and of a panel's last line.
  EXPECT_EQ(PackedBytes(TensorType::kQ4_0, 17, 32), 2 * (4 * 64 + 64));
}

TEST(Panels, OfATensorAreThoseOfEachOfItsMatrices) {
  EXPECT_EQ(*StoredBytes(WeightLayout::kPanels, TensorType::kQ8_0, Dims{64, 48}),
            PackedBytes(TensorType::kQ8_0, 48, 64));
  EXPECT_EQ(*StoredBytes(WeightLayout::kPanels, TensorType::kQ8_0, Dims{64, 40, 3}),
            3 * PackedBytes(TensorType::kQ8_0, 48, 64));
  EXPECT_EQ(*StoredBytes(WeightLayout::kPanels, TensorType::kF16, Dims{8, 1, 2, 5}),
            10 * PackedBytes(TensorType::kF16, 16, 8));
}

TEST(Panels, WhatHasNoneIsASentence) {
  const auto refusal = [](TensorType type, const Dims& dims) {
    return std::string(Message(StoredBytes(WeightLayout::kPanels, type, dims).status()));
  };
  EXPECT_EQ(refusal(TensorType::kF32, {64}), "is a vector, which has no panels");
  EXPECT_EQ(refusal(TensorType::kIQ2_XS, {256, 16}), "is IQ2_XS, which has no panels");
  EXPECT_EQ(refusal(TensorType::kQ8_0, {33, 16}),
            "has rows of 33 elements, Q8_0 needs a multiple of 32");
  EXPECT_EQ(refusal(TensorType::kQ8_0, {uint64_t{1} << 32, 16}),
            "has panels of 2^32 elements or more");
  EXPECT_EQ(refusal(TensorType::kQ8_0, {32, uint64_t{1} << 32}),
            "has panels of 2^32 elements or more");
  // As rows it would fit.
  EXPECT_TRUE(TensorBytes(TensorType::kF32, Dims{1, 1, uint64_t{1} << 30, uint64_t{1} << 30}).ok());
  EXPECT_EQ(refusal(TensorType::kF32, {1, 1, uint64_t{1} << 30, uint64_t{1} << 30}),
            "is larger than any file: dimensions overflow");
}

}  // namespace
}  // namespace outrider
