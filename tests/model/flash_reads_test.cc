// Which bytes of a file come to be which bytes of a slot, and whether anything is done to them on the way.
#include "common/model/weights/streaming/flash_reads.h"

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/tensors/panels.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr uint32_t kInputs = 2048;
constexpr uint64_t kBlock = 4096;

class FlashReadsTest : public ::testing::Test {
 protected:
  // `outputs` rows from `first_row` on of a stack of two matrices of 5632 rows each.
  MatrixPart Part(WeightLayout in_file, uint64_t offset, uint64_t first_row = 0,
                  uint32_t outputs = 5632) {
    tensor_.place = ModelTensor::Place{.file = 0, .offset = offset, .layout = in_file};
    return {.tensor = &tensor_,
            .first_row = first_row,
            .view = {.type = tensor_.type,
                     .layout = WeightLayout::kPanels,
                     .outputs = outputs,
                     .inputs = kInputs},
            .at = 2 * kSlotAlignment,
            .bytes = PackedBytes(tensor_.type, outputs, kInputs)};
  }
  std::string RefusalOf(const MatrixPart& part) {
    return std::string(Message(PlanReads({&part, 1}, {}, "m.gguf").status()));
  }

  ModelTensor tensor_ = {.name = "blk.0.ffn_up_exps.weight",
                         .type = TensorType::kQ8_0,
                         .dims = {kInputs, 5632, 2},
                         .bytes = 0,
                         .place = {}};
};

TEST_F(FlashReadsTest, PanelsOnBlocksLandInPlace) {
  const MatrixPart part = Part(WeightLayout::kPanels, 3 * kBlock);
  const PartReads reads = ReadsOf(part, kBlock);
  EXPECT_EQ(reads.landing, Landing::kInPlace);
  EXPECT_EQ(reads.offset, 3 * kBlock);
  EXPECT_EQ(reads.bytes, part.bytes);
  EXPECT_EQ(reads.step, kReadBytesMax);
  EXPECT_EQ(reads.count(), (part.bytes + kReadBytesMax - 1) / kReadBytesMax);
  EXPECT_EQ(reads.staging_bytes(), 0u);
}

// The device would write over what lies around them.
TEST_F(FlashReadsTest, PanelsBetweenBlocksAreCopied) {
  for (const PartReads& reads : {ReadsOf(Part(WeightLayout::kPanels, 3 * kBlock + 64), kBlock),
                                 ReadsOf(Part(WeightLayout::kPanels, 3 * kBlock), 2 * kBlock)}) {
    EXPECT_EQ(reads.landing, Landing::kCopied);
    EXPECT_LE(reads.staging_bytes(), kReadBytesMax + kBlock);
    EXPECT_GE(reads.staging_bytes(), reads.step + kBlock - 1);
  }
  MatrixPart part = Part(WeightLayout::kPanels, 3 * kBlock);
  part.at += kVectorAlignment;
  EXPECT_EQ(ReadsOf(part, kBlock).landing, Landing::kCopied);
}

TEST_F(FlashReadsTest, RowsArePackedAPanelOrSeveralAtATime) {
  const PartReads reads = ReadsOf(Part(WeightLayout::kRows, kBlock, 32, 100), kBlock);
  const uint64_t row_bytes = RowBytes(TensorType::kQ8_0, kInputs);
  EXPECT_EQ(reads.landing, Landing::kPacked);
  EXPECT_EQ(reads.offset, kBlock + 32 * row_bytes);
  EXPECT_EQ(reads.bytes, 100 * row_bytes);
  EXPECT_EQ(reads.step % (kPanelOutputs * row_bytes), 0u);
}

TEST_F(FlashReadsTest, EachMatrixOfAStackHasPanelsOfItsOwn) {
  tensor_.dims[1] = 5640;  // the last panel is half empty
  const uint64_t matrix = PackedBytes(TensorType::kQ8_0, 5640, kInputs);
  EXPECT_EQ(ReadsOf(Part(WeightLayout::kPanels, kBlock, 5640, 5640), kBlock).offset,
            kBlock + matrix);
  EXPECT_EQ(ReadsOf(Part(WeightLayout::kPanels, kBlock, 5640 + 32, 16), kBlock).offset,
            kBlock + matrix + 2 * PanelBytes(TensorType::kQ8_0, kInputs));
}

TEST_F(FlashReadsTest, WhatDoesNotLieAsItIsUsedIsASentence) {
  const std::string refusal =
      "m.gguf: tensor blk.0.ffn_up_exps.weight does not lie in the file as it is used, so it "
      "cannot "
      "be streamed; write a file that can be with `outrider convert --flash`";
  EXPECT_EQ(RefusalOf(Part(WeightLayout::kPanels, kBlock, 24)), refusal);  // within a panel
  MatrixPart rows = Part(WeightLayout::kPanels, kBlock);
  rows.view.layout = WeightLayout::kRows;
  EXPECT_EQ(RefusalOf(rows), refusal);
  const MatrixPart nowhere = Part(WeightLayout::kRows, kBlock);
  tensor_.place.reset();
  EXPECT_EQ(RefusalOf(nowhere), refusal);
}

}  // namespace
}  // namespace outrider
