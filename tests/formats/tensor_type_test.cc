#include "common/formats/tensors/tensor_type.h"

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Dims = std::vector<uint64_t>;

TEST(TensorType, NamesAndNumbersReadBack) {
  for (uint32_t id = 0; id < 64; ++id) {
    const std::optional<TensorType> type = TensorTypeFromId(id);
    if (!type) continue;
    EXPECT_EQ(static_cast<uint32_t>(*type), id);
    EXPECT_EQ(TensorTypeFromName(Name(*type)), type);
  }
  EXPECT_EQ(TensorTypeFromName("q4_k"), TensorType::kQ4_K);
  EXPECT_EQ(TensorTypeFromName("q4"), std::nullopt);
}

TEST(TensorType, RemovedFormsAreUnknown) {
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 4294967295u}) {
    EXPECT_EQ(TensorTypeFromId(id), std::nullopt) << id;
  }
}

TEST(TensorBytes, IsRowsTimesRowBytes) {
  EXPECT_EQ(*TensorBytes(TensorType::kF32, Dims{5}), 20u);
  EXPECT_EQ(*TensorBytes(TensorType::kQ4_0, Dims{64, 3}), 2u * 18 * 3);
  EXPECT_EQ(*TensorBytes(TensorType::kQ6_K, Dims{512, 7, 2}), 2u * 210 * 14);
}

TEST(TensorBytes, RefusesWhatNoFileCanHold) {
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{}).ok());
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{1, 1, 1, 1, 1}).ok());
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{4, 0}).ok());
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{0}).ok());
  const uint64_t huge = uint64_t{1} << 62;
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{huge}).ok());
  EXPECT_FALSE(TensorBytes(TensorType::kF32, Dims{huge, huge, huge, huge}).ok());
  const absl::Status status = TensorBytes(TensorType::kQ4_K, Dims{300}).status();
  EXPECT_EQ(Message(status), "has rows of 300 elements, Q4_K needs a multiple of 256");
}

}  // namespace
}  // namespace outrider
