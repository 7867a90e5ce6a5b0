#include "common/formats/models/unsound_weights.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/check.h"
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
