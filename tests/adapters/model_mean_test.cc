#include "adapters/averaging/model_mean.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Bytes(TensorType type, const std::vector<float>& weights) {
  std::vector<std::byte> bytes(RowBytes(type, weights.size()));
  EXPECT_TRUE(Quantize(type, weights, bytes).ok());
  return bytes;
}

std::vector<std::byte> Bytes(const ModelFile& model, const ModelTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  EXPECT_TRUE(model.ReadRows(tensor, 0, tensor.row_count(), bytes).ok());
  return bytes;
}

std::vector<float> Weights(const ModelFile& model, const ModelTensor& tensor) {
  std::vector<float> weights(tensor.row_count() * tensor.dims[0]);
  EXPECT_TRUE(Dequantize(tensor.type, Bytes(model, tensor), weights).ok());
  return weights;
}

class ModelMeanTest : public testing::Test {
 protected:
  NamedModel Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<ModelFile>> file = ModelFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    files_.push_back(*std::move(file));
    return {path, files_.back().get()};
  }

  NamedModel Random(const std::string& family, TensorType type) {
    const std::string path = dir_.File(family + std::string(Name(type)) + ".gguf");
    WriteRandomModel(SmallModel(family), type, path);
    return Open(path);
  }

  // The model with every weight passed through `change`.
  NamedModel Changed(const NamedModel& model, const std::function<float(float)>& change) {
    GgufWriter writer;
    EXPECT_TRUE(model.file->AddMetadata(writer).ok());
    for (const ModelTensor& tensor : model.file->tensors()) {
      EXPECT_TRUE(writer.AddTensor(tensor.name, tensor.type, tensor.dims).ok());
    }
    const std::string path = dir_.File("changed.gguf");
    EXPECT_TRUE(writer.Begin(path).ok());
    for (const ModelTensor& tensor : model.file->tensors()) {
      std::vector<float> weights = Weights(*model.file, tensor);
      for (float& weight : weights) weight = change(weight);
      EXPECT_TRUE(writer.Write(Bytes(tensor.type, weights)).ok());
    }
    EXPECT_TRUE(writer.Commit().ok());
    return Open(path);
  }

  absl::Status Mean(const std::vector<NamedModel>& models) {
    told_ = 0;
    return WriteMean(models, mean_, [this](uint64_t bytes, std::string_view) { told_ += bytes; });
  }

  std::string RefusalOf(const std::vector<NamedModel>& models) {
    const absl::Status status = Mean(models);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  ScratchDir dir_;
  const std::string mean_ = dir_.File("mean.gguf");
  std::vector<std::unique_ptr<ModelFile>> files_;
  uint64_t told_ = 0;
};

TEST_F(ModelMeanTest, IsTheMeanOfEveryWeight) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    const NamedModel one = Random("llama", type);
    const NamedModel other = Changed(one, [](float x) { return 0.25f - 3 * x; });
    ASSERT_TRUE(Mean({one, other, other}).ok());
    const NamedModel mean = Open(mean_);
    EXPECT_EQ(mean.file->hyperparameters().name, "mean");
    uint64_t bytes = 0;
    for (const ModelTensor& tensor : mean.file->tensors()) {
      const std::vector<float> a = Weights(*one.file, *one.file->Find(tensor.name));
      const std::vector<float> b = Weights(*other.file, *other.file->Find(tensor.name));
      std::vector<float> expected(a.size());
      for (size_t i = 0; i < a.size(); ++i) {
        expected[i] = static_cast<float>((double{a[i]} + b[i] + b[i]) / 3);
      }
      EXPECT_EQ(tensor.type, one.file->Find(tensor.name)->type);
      EXPECT_EQ(Bytes(*mean.file, tensor), Bytes(tensor.type, expected)) << tensor.name;
      bytes += tensor.bytes;
    }
    EXPECT_EQ(told_, bytes);
  }
}

TEST_F(ModelMeanTest, HasTheTypesOfTheFirst) {
  const NamedModel coarse = Random("llama", TensorType::kF16);
  const NamedModel fine = Random("llama", TensorType::kF32);
  const std::string matrix = "blk.0.attn_q.weight";
  ASSERT_TRUE(Mean({coarse, fine}).ok());
  EXPECT_EQ(Open(mean_).file->Find(matrix)->type, TensorType::kF16);
  ASSERT_TRUE(Mean({fine, coarse}).ok());
  EXPECT_EQ(Open(mean_).file->Find(matrix)->type, TensorType::kF32);
}

TEST_F(ModelMeanTest, RefusesWhatHasNoMean) {
  const NamedModel llama = Random("llama", TensorType::kF16);
  EXPECT_THAT(RefusalOf({llama}), HasSubstr("two models at least"));
  EXPECT_THAT(RefusalOf({llama, Random("qwen2", TensorType::kF16)}),
              HasSubstr("has another shape than"));
  EXPECT_THAT(RefusalOf({llama, Random("llama", TensorType::kQ8_0)}),
              HasSubstr("is Q8_0; take the mean of F32, F16 or BF16 models"));
  const NamedModel huge = Changed(llama, [](float) { return 65504.0f; });
  const NamedModel whole = Changed(Random("llama", TensorType::kF32), [](float) { return 1e6f; });
  EXPECT_THAT(RefusalOf({huge, whole}), HasSubstr("mean.gguf: "));
  EXPECT_FALSE(std::filesystem::exists(mean_));
}

}  // namespace
}  // namespace outrider
