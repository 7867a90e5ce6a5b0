// Which types can be made of floats; a block is made of its own elements alone, wherever it is written.
#include "common/formats/tensors/quantize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "gtest/gtest.h"
#include "tests/formats/quantized_values.h"

namespace outrider {
namespace {

TEST(Quantize, TreatsEachBlockByItself) {
  const std::vector<float> values = NormalValues(1, 1024, 0.02f);
  for (const TensorType type : kQuantizeTypes) {
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
  const std::vector<float> values = NormalValues(2, 512, 0.02f);
  for (const TensorType type : kQuantizeTypes) {
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
    const bool listed = std::ranges::find(kQuantizeTypes, *type) != kQuantizeTypes.end();
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
  for (const TensorType type : kQuantizeTypes) EXPECT_TRUE(Quantize(type, {}, {}).ok());
}

}  // namespace
}  // namespace outrider
