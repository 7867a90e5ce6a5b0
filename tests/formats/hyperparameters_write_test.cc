#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/gguf_file.h"
#include "common/formats/gguf_writer.h"
#include "common/formats/hyperparameters.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tiny_models.h"

namespace outrider {
namespace {

// As the tensors would tell: a file without any says nothing of tied embeddings, of gates, or of
// the factors llama3 scaling became.
Hyperparameters AsWritten(const Hyperparameters& model, const ScratchDir& scratch) {
  const std::string path = scratch.File("written.gguf");
  GgufWriter writer;
  AddHyperparameterMetadata(model, writer);
  std::vector<std::string> tensors = {"token_embd.weight"};
  if (!model.tied_embeddings) tensors.push_back("output.weight");
  if (model.architecture == Architecture::kT5 && model.gated) {
    tensors.push_back("dec.blk.0.ffn_gate.weight");
  }
  for (const std::string& tensor : tensors) {
    const uint64_t dims[] = {1, model.vocabulary_size};
    EXPECT_TRUE(writer.AddTensor(tensor, TensorType::kF32, dims).ok());
  }
  EXPECT_TRUE(writer.Begin(path).ok());
  const std::vector<std::byte> zeros(4 * uint64_t{model.vocabulary_size});
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(writer.Write(zeros).ok());
  EXPECT_TRUE(writer.Commit().ok());
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<Hyperparameters> read = HyperparametersFromGguf(*file, path);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *read : Hyperparameters{};
}

TEST(AddHyperparameterMetadata, ReadsBackEqualForEveryArchitecture) {
  const ScratchDir scratch;
  for (const char* name : {"llama", "llama_biased", "mistral", "mixtral", "qwen2", "qwen3",
                           "qwen3_moe", "olmoe", "gpt2", "t5", "bart", "switch"}) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    Hyperparameters expected = model->hyperparameters();
    if (expected.rope.scaling == RopeScaling::kLlama3)
      expected.rope = Rope{.style = expected.rope.style,
                           .dimension_count = expected.rope.dimension_count,
                           .base = expected.rope.base};
    EXPECT_TRUE(AsWritten(expected, scratch) == expected) << name;
  }
}

TEST(AddHyperparameterMetadata, DeparturesFromAnArchitecturesCustomReadBack) {
  const ScratchDir scratch;
  const std::unique_ptr<ModelFile> opened = OpenOrNull(ModelDirectory("bart"));
  ASSERT_NE(opened, nullptr);
  Hyperparameters bart = opened->hyperparameters();
  bart.scale_embeddings = true;
  bart.activation = Activation::kRelu;
  EXPECT_TRUE(AsWritten(bart, scratch) == bart);

  const std::unique_ptr<ModelFile> opened_t5 = OpenOrNull(ModelDirectory("t5"));
  ASSERT_NE(opened_t5, nullptr);
  Hyperparameters t5 = opened_t5->hyperparameters();
  t5.output_scale = 1.0f;  // tied, and yet not scaled
  t5.relative_max_distance = 64;
  t5.activation = Activation::kSilu;
  EXPECT_TRUE(AsWritten(t5, scratch) == t5);

  const std::unique_ptr<ModelFile> opened_llama = OpenOrNull(ModelDirectory("mixtral"));
  ASSERT_NE(opened_llama, nullptr);
  Hyperparameters llama = opened_llama->hyperparameters();
  llama.head_count = {4, 8};
  llama.head_count_kv = {2, 1};
  llama.experts.blocks = {false, true};
  llama.experts.renormalize = false;
  llama.rope.scaling = RopeScaling::kLinear;
  llama.rope.factor = 2.5f;
  llama.sliding_window = 17;
  EXPECT_TRUE(AsWritten(llama, scratch) == llama);
}

}  // namespace
}  // namespace outrider
