#include "common/model/model_spec.h"

#include <string>

#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ModelSpec> SpecOf(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  return ModelSpec::From(*model, path);
}

TEST(ModelSpec, SaysWhatSetsArchitecturesApart) {
  const ModelSpec llama = OrDie(SpecOf(TestFile("models/llama")));
  EXPECT_EQ(llama.norm, NormKind::kRms);
  EXPECT_EQ(llama.layers[0].feed_forward.gate, GateKind::kSiluGated);
  EXPECT_EQ(llama.layers[0].attention()->rope.scaling, RopeScaling::kLlama3);
  ASSERT_EQ(llama.layer_count(), 2u);
  EXPECT_EQ(llama.layers[1], llama.layers[0]);
  EXPECT_EQ(llama.layers[1].attention()->head_count, 4u);
  EXPECT_EQ(llama.layers[1].attention()->kv_head_count, 2u);
  EXPECT_EQ(llama.layers[1].attention()->scale, 0.25f);
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_FALSE(llama.learned_positions);

  const ModelSpec gpt2 = OrDie(SpecOf(TestFile("models/gpt2")));
  EXPECT_EQ(gpt2.norm, NormKind::kLayer);
  EXPECT_EQ(gpt2.layers[0].feed_forward.gate, GateKind::kGeluTanh);
  EXPECT_EQ(gpt2.layers[0].attention()->rope.style, RopeStyle::kNone);
  EXPECT_TRUE(gpt2.learned_positions);
  EXPECT_TRUE(gpt2.tied_embeddings);

  EXPECT_EQ(OrDie(SpecOf(TestFile("models/mistral"))).layers[1].attention()->window, 16u);
  EXPECT_EQ(OrDie(SpecOf(TestFile("models/qwen2"))).layers[1].attention()->window, std::nullopt);
}

// What messages call it, however its path was written.
TEST(ModelSpec, KnowsTheNameOfItsFile) {
  EXPECT_EQ(OrDie(SpecOf(TestFile("models/llama"))).file, "llama");
  EXPECT_EQ(OrDie(SpecOf(TestFile("models/llama/"))).file, "llama");
  EXPECT_EQ(OrDie(SpecOf(TestFile("logits/gpt_oss.gguf"))).file, "gpt_oss.gguf");
}

void ExpectUnimplemented(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr(part));
}

TEST(ModelSpec, RefusesByNameWhatThePassCannotDo) {
  ExpectUnimplemented(SpecOf(TestFile("models/t5")).status(), "encoder and decoder (t5)");
  ExpectUnimplemented(SpecOf(TestFile("models/bart")).status(), "encoder and decoder (bart)");

  const ScratchDir dir;
  const std::string path = dir.File("wide.gguf");
  Hyperparameters model = SmallModel("llama");
  model.key_length = model.value_length = 1024;
  model.rope.dimension_count = 1024;
  WriteRandomModel(model, TensorType::kQ8_0, path);
  ExpectUnimplemented(SpecOf(path).status(), "heads of 1024 (the most is 512)");
}

TEST(ModelSpec, AVocabularyAloneCannotBeRun) {
  const ScratchDir dir;
  GgufWriter writer;
  AddHyperparameterMetadata(SmallModel("mistral"), writer);
  OUTRIDER_CHECK_OK(writer.Begin(dir.File("vocabulary.gguf")));
  OUTRIDER_CHECK_OK(writer.Commit());
  const absl::Status status = SpecOf(dir.File("vocabulary.gguf")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("holds a vocabulary and no weights"));
}

}  // namespace
}  // namespace outrider
