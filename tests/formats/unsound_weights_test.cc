#include "common/formats/models/unsound_weights.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/formats/containers/safetensors.h"
#include "common/formats/models/convert.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tiny_models.h"

namespace outrider {
namespace {

constexpr char kSpoiled[] = "token_embd.weight";  // of some hundred rows: read in several parts

// Where each tensor has its first.
std::string Unsound(const ModelFile& model) {
  std::string text;
  for (const ModelTensor& tensor : model.tensors()) {
    const auto found = FindUnsound(model, tensor, "model.gguf");
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found) continue;
    text += tensor.name + " " + std::to_string((*found)->row) + " " +
            std::to_string((*found)->column) + " " + std::to_string((*found)->value) + "\n";
  }
  return text;
}

class UnsoundWeights : public testing::Test {
 protected:
  UnsoundWeights() {
    const auto model = OpenOrNull(ModelDirectory("qwen2"));
    ConvertOptions options;
    options.type = TensorType::kF32;
    OUTRIDER_CHECK_OK(Convert(*model, path_, options, [](uint64_t, std::string_view) {}));
  }

  // The element of kSpoiled at `row` and `column` becomes `value`.
  void Spoil(uint64_t row, uint64_t column, float value) {
    const auto model = OpenOrNull(path_);
    const ModelTensor& tensor = *model->Find(kSpoiled);
    std::string bytes = ReadFile(path_);
    std::memcpy(bytes.data() + tensor.place->offset + 4 * (row * tensor.dims[0] + column), &value,
                sizeof(value));
    dir_.Write("model.gguf", bytes);
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
};

TEST_F(UnsoundWeights, OfASoundModelAreNone) {
  EXPECT_EQ(Unsound(*OpenOrNull(path_)), "");
}

TEST_F(UnsoundWeights, AllOfATensorIsReadAndTold) {
  for (const std::string& path : {path_, TestFile("logits/gpt_oss_saved")}) {
    const auto model = OpenOrNull(path);
    for (const ModelTensor& tensor : model->tensors()) {
      uint64_t told = 0;
      const auto found = FindUnsound(*model, tensor, path, [&](uint64_t bytes) { told += bytes; });
      EXPECT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(told, tensor.bytes) << tensor.name;
    }
  }
}

// Of gpt-oss as transformers saves it: [experts, inputs, outputs], and a row is an output's.
TEST_F(UnsoundWeights, OfExpertsWithRowsAndColumnsExchangedAreNamed) {
  const std::string copy = dir_.File("gpt_oss");
  std::filesystem::copy(TestFile("logits/gpt_oss_saved"), copy);
  const std::string file = copy + "/model.safetensors";
  constexpr char kDown[] = "model.layers.1.mlp.experts.down_proj";
  std::string bytes = ReadFile(file);
  {
    const auto tensors = SafetensorsSet::Open(copy);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    const SafetensorsTensor& down = *tensors->Find(kDown);
    ASSERT_EQ(down.shape, (std::vector<uint64_t>{5, 64, 32}));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + down.offset + 4 * ((3 * 64 + 9) * 32 + 7), &nan, sizeof(nan));
  }
  dir_.Write("gpt_oss/model.safetensors", bytes);
  EXPECT_EQ(Unsound(*OpenOrNull(copy)),
            "blk.1.ffn_down_exps.weight " + std::to_string(3 * 32 + 7) + " 9 nan\n");
}

TEST_F(UnsoundWeights, AreNamedByTensorRowAndElement) {
  const uint64_t rows = OpenOrNull(path_)->Find(kSpoiled)->row_count();
  Spoil(rows - 1, 2, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Unsound(*OpenOrNull(path_)),
            std::string(kSpoiled) + " " + std::to_string(rows - 1) + " 2 nan\n");
  Spoil(1, 3, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Unsound(*OpenOrNull(path_)), std::string(kSpoiled) + " 1 3 -inf\n");
}

}  // namespace
}  // namespace outrider
