#include "common/kernels/weight_matrix.h"

#include <cstring>
#include <vector>

#include "common/formats/tensors/dequantize.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr TensorType kTypesWithPanels[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K, TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4};

// Any bits: decoding is compared bit by bit, so NaNs are as good as numbers.
std::vector<std::byte> RandomRows(TensorType type, uint32_t outputs, uint32_t inputs) {
  Seeded seeded(outputs * 1000003 + inputs);
  std::vector<std::byte> rows(outputs * RowBytes(type, inputs));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(seeded.Next());
  return rows;
}

bool SameBytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(WeightMatrix, PanelsDecodeToWhatTheirRowsDecodeTo) {
  for (const TensorType type : kTypesWithPanels) {
    for (const uint32_t blocks : {1u, 3u, 9u}) {
      const uint32_t inputs = blocks * Info(type).block_elements;
      for (const uint32_t outputs : {1u, 15u, 16u, 17u, 40u}) {
        const std::vector<std::byte> rows = RandomRows(type, outputs, inputs);
        const size_t row_bytes = RowBytes(type, inputs);
        const size_t panel_bytes = PanelBytes(type, inputs);
        Bytes packed(PackedBytes(type, outputs, inputs));
        ASSERT_EQ(packed.size(), PanelCount(outputs) * panel_bytes);
        for (uint32_t p = 0; p < PanelCount(outputs); ++p) {
          const uint32_t first = p * kPanelOutputs;
          const uint32_t count = std::min(kPanelOutputs, outputs - first);
          PackPanel(type, inputs, std::span(rows).subspan(first * row_bytes, count * row_bytes),
                    {packed.data() + p * panel_bytes, panel_bytes});
        }
        const WeightMatrix in_rows = {type, WeightLayout::kRows, outputs, inputs, rows.data()};
        const WeightMatrix in_panels = {type, WeightLayout::kPanels, outputs, inputs,
                                        packed.data()};
        std::vector<float> expected(inputs);
        std::vector<float> decoded(inputs);
        for (uint32_t n = 0; n < outputs; ++n) {
          ASSERT_TRUE(
              Dequantize(type, std::span(rows).subspan(n * row_bytes, row_bytes), expected).ok());
          DecodeRow(in_rows, n, decoded);
          EXPECT_TRUE(SameBytes(decoded, expected)) << Name(type) << " row " << n << " of rows";
          DecodeRow(in_panels, n, decoded);
          EXPECT_TRUE(SameBytes(decoded, expected)) << Name(type) << " row " << n << " of panels";
        }
      }
    }
  }
}

TEST(WeightMatrix, MissingOutputsOfAPanelAreZeroWeights) {
  for (const TensorType type : kTypesWithPanels) {
    const uint32_t inputs = 2 * Info(type).block_elements;
    const std::vector<std::byte> rows = RandomRows(type, 3, inputs);
    std::vector<std::byte> panel(PanelBytes(type, inputs), std::byte{0xff});
    PackPanel(type, inputs, rows, panel);
    const WeightMatrix matrix = {type, WeightLayout::kPanels, 16, inputs, panel.data()};
    std::vector<float> decoded(inputs);
    for (uint32_t n = 3; n < 16; ++n) {
      DecodeRow(matrix, n, decoded);
      for (const float weight : decoded) EXPECT_EQ(weight, 0.0f) << Name(type);
    }
  }
}

TEST(WeightMatrix, RowsOfAnyTypeDecodeIntoAPanelOfFloats) {
  for (const TensorType type : {TensorType::kQ5_0, TensorType::kQ5_K, TensorType::kQ2_K}) {
    const uint32_t inputs = 512;
    const std::vector<std::byte> rows = RandomRows(type, 5, inputs);
    std::vector<float> row(inputs);
    std::vector<float> panel(inputs * kPanelOutputs, 7.0f);
    DecodePanel(type, inputs, rows, row, panel);
    const WeightMatrix in_rows = {type, WeightLayout::kRows, 5, inputs, rows.data()};
    const WeightMatrix as_floats = {TensorType::kF32, WeightLayout::kPanels, 16, inputs,
                                    reinterpret_cast<const std::byte*>(panel.data())};
    std::vector<float> expected(inputs);
    std::vector<float> decoded(inputs);
    for (uint32_t n = 0; n < 16; ++n) {
      std::ranges::fill(expected, 0.0f);
      if (n < 5) DecodeRow(in_rows, n, expected);
      DecodeRow(as_floats, n, decoded);
      EXPECT_TRUE(SameBytes(decoded, expected)) << Name(type) << " row " << n;
    }
  }
}

}  // namespace
}  // namespace outrider
