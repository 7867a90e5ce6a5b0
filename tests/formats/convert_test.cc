// `convert --flash` lays a model out as it is streamed: in the order of a pass, on pages, and what is
// multiplied with in panels. It stays the same model.
#include "common/formats/models/convert.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/panels.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tiny_models.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

class FlashFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<ModelFile> Converted(const ModelFile& model, const std::string& name,
                                       const ConvertOptions& options) {
    const std::string path = scratch_.File(name);
    uint64_t written = 0;
    OUTRIDER_CHECK_OK(
        Convert(model, path, options, [&](uint64_t bytes, std::string_view) { written += bytes; }));
    EXPECT_EQ(written, ConvertedBytes(model, options));
    return OpenOrNull(path);
  }
  std::unique_ptr<ModelFile> OnFlash(const std::string& family) {
    return Converted(*OpenOrNull(ModelDirectory(family)), family + ".gguf", {.flash = true});
  }
  std::unique_ptr<ModelFile> Random(const Hyperparameters& numbers) {
    const std::string path = scratch_.File("random.gguf");
    WriteRandomModel(numbers, TensorType::kF32, path);
    return OpenOrNull(path);
  }
  static WeightLayout LayoutOf(const ModelFile& model, std::string_view name) {
    const ModelTensor* const tensor = model.Find(name);
    OUTRIDER_CHECK(tensor != nullptr && tensor->place, "it lies in the file");
    return tensor->place->layout;
  }

  const ScratchDir scratch_;
};

TEST_F(FlashFileTest, HoldsTheModelsRowsAndItsHash) {
  size_t panels = 0;
  for (const char* const family : {"llama", "qwen3", "gpt2", "mixtral", "qwen3_moe", "t5"}) {
    SCOPED_TRACE(family);
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(family));
    ASSERT_NE(model, nullptr);
    const auto rows = Converted(*model, "rows.gguf", {});
    for (const uint32_t threads : {1u, 3u}) {
      const auto flash = Converted(*model, "flash.gguf", {.flash = true, .thread_count = threads});
      ASSERT_EQ(flash->tensors().size(), rows->tensors().size());
      for (const ModelTensor& tensor : flash->tensors()) {
        SCOPED_TRACE(tensor.name);
        EXPECT_EQ(tensor.place->offset % kFlashAlignment, 0u);
        const ModelTensor* const expected = rows->Find(tensor.name);
        ASSERT_NE(expected, nullptr);
        EXPECT_EQ(tensor.type, expected->type);
        EXPECT_EQ(tensor.bytes, expected->bytes);
        EXPECT_TRUE(ReadAll(*flash, tensor) == ReadAll(*rows, *expected));
        panels += tensor.place->layout == WeightLayout::kPanels;
      }
      EXPECT_EQ(*flash->RecordedContentHash(), *rows->RecordedContentHash());
      EXPECT_EQ(*HashContent(*flash), *rows->RecordedContentHash());
    }
  }
  EXPECT_GT(panels, 100u);
}

// Rows of embeddings are looked up; vectors are no matrices.
TEST_F(FlashFileTest, HasInPanelsWhatIsMultipliedWith) {
  const auto llama = OnFlash("llama");
  for (const char* const name : {"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "output.weight"}) {
    EXPECT_EQ(LayoutOf(*llama, name), WeightLayout::kPanels) << name;
  }
  for (const char* const name : {"token_embd.weight", "blk.0.attn_norm.weight"}) {
    EXPECT_EQ(LayoutOf(*llama, name), WeightLayout::kRows) << name;
  }
  EXPECT_EQ(LayoutOf(*OnFlash("qwen3"), "token_embd.weight"), WeightLayout::kPanels);  // the head
  const auto gpt2 = OnFlash("gpt2");
  EXPECT_EQ(LayoutOf(*gpt2, "position_embd.weight"), WeightLayout::kRows);
  EXPECT_EQ(LayoutOf(*gpt2, "blk.0.attn_qkv.weight"), WeightLayout::kPanels);
}

// Experts of 40 rows: each has three panels of its own, the last of them half empty.
TEST_F(FlashFileTest, HoldsEachMatrixOfAStackInPanelsOfItsOwn) {
  Hyperparameters numbers = SmallModel("mixtral");
  numbers.feed_forward_length = numbers.experts.feed_forward_length = 40;
  const auto model = Random(numbers);
  const auto flash = Converted(*model, "flash.gguf", {.flash = true, .thread_count = 2});
  const ModelTensor& up = *flash->Find("blk.0.ffn_up_exps.weight");
  ASSERT_EQ(up.dims[1], 40u);
  EXPECT_EQ(up.place->layout, WeightLayout::kPanels);
  for (const ModelTensor& tensor : flash->tensors()) {
    EXPECT_TRUE(ReadAll(*flash, tensor) == ReadAll(*model, *model->Find(tensor.name)))
        << tensor.name;
  }
  // A few rows from the middle of a matrix to the middle of the next.
  const uint64_t row_bytes = RowBytes(up.type, up.dims[0]);
  const std::vector<std::byte> all = ReadAll(*flash, up);
  std::vector<std::byte> some(30 * row_bytes);
  ASSERT_TRUE(flash->ReadRows(up, 25, 30, some).ok());
  EXPECT_TRUE(std::ranges::equal(some, std::span(all).subspan(25 * row_bytes, some.size())));
}

// Queries, keys and values of 40 rows each in one matrix: whoever takes it apart would find keys in the
// middle of a panel.
TEST_F(FlashFileTest, HasInRowsWhatIsTakenApartWithinAPanel) {
  Hyperparameters numbers = SmallModel("gpt2");
  numbers.embedding_length = 40;
  numbers.key_length = numbers.value_length = 40 / numbers.head_count[0];
  const auto flash = Converted(*Random(numbers), "flash.gguf", {.flash = true});
  EXPECT_EQ(LayoutOf(*flash, "blk.0.attn_qkv.weight"), WeightLayout::kRows);
  EXPECT_EQ(LayoutOf(*flash, "blk.0.attn_output.weight"), WeightLayout::kPanels);
}

TEST_F(FlashFileTest, IsPanelsAsProductsReadThem) {
  const auto llama = OnFlash("llama");
  const ModelTensor& tensor = *llama->Find("blk.0.ffn_up.weight");
  const auto inputs = static_cast<uint32_t>(tensor.dims[0]);
  const std::vector<std::byte> rows = ReadAll(*llama, tensor);
  std::vector<std::byte> expected(PanelBytes(tensor.type, inputs));
  PackPanel(tensor.type, inputs,
            std::span(rows).first(kPanelOutputs * RowBytes(tensor.type, inputs)), expected);
  std::ifstream file(llama->file_path(0), std::ios::binary);
  std::vector<std::byte> panel(expected.size());
  file.seekg(static_cast<std::streamoff>(tensor.place->offset));
  file.read(reinterpret_cast<char*>(panel.data()), static_cast<std::streamsize>(panel.size()));
  EXPECT_EQ(panel, expected);
}

// As any other file of the model: to another type, and back to rows.
TEST_F(FlashFileTest, CanBeConvertedAgain) {
  for (const char* const family : {"llama", "mixtral"}) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(family));
    const auto flash = Converted(*model, "flash.gguf", {.flash = true});
    for (const std::optional<TensorType> type :
         {std::optional<TensorType>(), {TensorType::kQ8_0}}) {
      const auto expected = Converted(*model, "expected.gguf", {.type = type});
      const auto again = Converted(*flash, "again.gguf", {.type = type});
      for (const ModelTensor& tensor : again->tensors()) {
        EXPECT_EQ(tensor.place->layout, WeightLayout::kRows);
        EXPECT_TRUE(ReadAll(*again, tensor) == ReadAll(*expected, *expected->Find(tensor.name)))
            << family << " " << tensor.name;
      }
    }
  }
}

}  // namespace
}  // namespace outrider
