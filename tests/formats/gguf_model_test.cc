// GGUF files as models. gguf_file_test.cc is about the container.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/models/model_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/formats/tiny_models.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A GGUF file of zeros with one block's worth of a tiny llama's metadata and the tensors given.
class GgufModelBytes {
 public:
  GgufModelBytes() {
    Text("general.architecture", "llama");
    Number("llama.context_length", 32);
    Number("llama.embedding_length", 8);
    Number("llama.block_count", 1);
    Number("llama.feed_forward_length", 16);
    Number("llama.attention.head_count", 2);
    bytes_.keys.push_back(PackedKey("llama.attention.layer_norm_rms_epsilon",
                                    GgufValueType::kFloat32, Packed(1e-5f)));
    for (const char* norm : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
      Tensor(Concat(norm, ".weight"), {8});
    }
    for (const char* part : {"q", "k", "v", "output"}) {
      Tensor(Concat("blk.0.attn_", part, ".weight"), {8, 8});
    }
    Tensor("token_embd.weight", {8, 10});
  }

  void Text(std::string_view key, std::string_view value) {
    bytes_.keys.push_back(PackedKey(key, GgufValueType::kString, PackedString(value)));
  }
  void Number(std::string_view key, uint32_t value) {
    bytes_.keys.push_back(PackedKey(key, GgufValueType::kUint32, Packed(value)));
  }
  // F32, each element a float of its own.
  void Tensor(std::string_view name, const std::vector<uint64_t>& dims) {
    bytes_.tensors.push_back(PackedTensor(name, dims, 0, bytes_.data.size()));
    uint64_t elements = 1;
    for (const uint64_t dim : dims) elements *= dim;
    for (uint64_t i = 0; i < elements; ++i) bytes_.data += Packed(next_++);
    bytes_.data.resize((bytes_.data.size() + 31) / 32 * 32, '\0');
  }
  void Dense() {
    Tensor("blk.0.ffn_gate.weight", {8, 16});
    Tensor("blk.0.ffn_up.weight", {8, 16});
    Tensor("blk.0.ffn_down.weight", {16, 8});
  }

  std::string Encode() const { return bytes_.Encode(); }

 private:
  GgufBytes bytes_;
  float next_ = 1;
};

float FloatAt(std::span<const std::byte> bytes, size_t index) {
  float value;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

TEST(GgufModel, OpensGguf) {
  const ScratchDir scratch;
  GgufModelBytes gguf;
  gguf.Dense();
  scratch.Write("tiny.gguf", gguf.Encode());
  const std::unique_ptr<ModelFile> model = OpenOrNull(scratch.File("tiny.gguf"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->format(), "GGUF v3");
  EXPECT_EQ(model->hyperparameters().name, "tiny");
  EXPECT_EQ(model->hyperparameters().vocabulary_size, 10u);
  EXPECT_TRUE(model->hyperparameters().tied_embeddings);
  EXPECT_EQ(model->file_count(), 1u);
  EXPECT_EQ(model->file_bytes(), fs::file_size(scratch.File("tiny.gguf")));
  const ModelTensor* norm = model->Find("blk.0.attn_norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(FloatAt(ReadAll(*model, *norm), 0), 9.0f);  // eight of output_norm before it
  EXPECT_TRUE(norm->place.has_value());
}

TEST(GgufModel, ACutThatIsGuessedGetsANotice) {
  const ScratchDir scratch;
  const std::string path = scratch.File("tiny.gguf");
  const auto notices = [&](const char* tokenizer, const char* pre) {
    GgufModelBytes gguf;
    gguf.Dense();
    gguf.Text("tokenizer.ggml.model", tokenizer);
    if (pre != nullptr) gguf.Text("tokenizer.ggml.pre", pre);
    scratch.Write("tiny.gguf", gguf.Encode());
    const std::unique_ptr<ModelFile> model = OpenOrNull(path);
    return model == nullptr ? std::vector<std::string>{"cannot be opened"} : model->Notices();
  };
  const std::string notice =
      path +
      ": does not say in tokenizer.ggml.pre how its tokenizer cuts text; it is cut as "
      "llama.cpp does by default, and the model may have learned otherwise: convert it again "
      "with a current converter";
  EXPECT_THAT(notices("gpt2", nullptr), ElementsAre(notice));
  EXPECT_THAT(notices("gpt2", ""), ElementsAre(notice));
  EXPECT_THAT(notices("gpt2", "default"), IsEmpty());  // what it says itself is no guess
  EXPECT_THAT(notices("gpt2", "llama-bpe"), IsEmpty());
  EXPECT_THAT(notices("llama", nullptr), IsEmpty());
}

TEST(GgufModel, GgufTensorsAreHeldToTheHyperparameters) {
  const ScratchDir scratch;
  const std::string path = scratch.File("tiny.gguf");
  GgufModelBytes missing;
  scratch.Write("tiny.gguf", missing.Encode());
  EXPECT_EQ(ModelFile::Open(path).status(),
            NotFound(path, ": has no tensor blk.0.ffn_gate.weight, expected one of [8, 16]"));
  GgufModelBytes unknown;
  unknown.Dense();
  unknown.Tensor("blk.0.attn_sinks.weight", {2});
  scratch.Write("tiny.gguf", unknown.Encode());
  EXPECT_EQ(ModelFile::Open(path).status(),
            InvalidArgument(path, ": tensor blk.0.attn_sinks.weight is none of a llama model's"));
  GgufModelBytes crooked;
  crooked.Tensor("blk.0.ffn_gate.weight", {16, 8});
  scratch.Write("tiny.gguf", crooked.Encode());
  EXPECT_EQ(ModelFile::Open(path).status(),
            InvalidArgument(path, ": tensor blk.0.ffn_gate.weight is [16, 8], expected [8, 16]"));
}

TEST(GgufModel, FusedGateAndUpReadAsTwoTensors) {
  const ScratchDir scratch;
  GgufModelBytes gguf;
  gguf.Number("llama.expert_count", 3);
  gguf.Number("llama.expert_used_count", 2);
  gguf.Tensor("blk.0.ffn_gate_inp.weight", {8, 3});
  gguf.Tensor("blk.0.ffn_gate_up_exps.weight", {8, 32, 3});
  gguf.Tensor("blk.0.ffn_down_exps.weight", {16, 8, 3});
  scratch.Write("moe.gguf", gguf.Encode());
  const std::unique_ptr<ModelFile> model = OpenOrNull(scratch.File("moe.gguf"));
  ASSERT_NE(model, nullptr);
  const ModelTensor* gate = model->Find("blk.0.ffn_gate_exps.weight");
  const ModelTensor* up = model->Find("blk.0.ffn_up_exps.weight");
  ASSERT_TRUE(gate != nullptr && up != nullptr);
  EXPECT_EQ(gate->dims, (std::vector<uint64_t>{8, 16, 3}));
  const std::vector<std::byte> gates = ReadAll(*model, *gate);
  const std::vector<std::byte> ups = ReadAll(*model, *up);
  const float first = FloatAt(gates, 0);
  for (size_t expert = 0; expert < 3; ++expert) {
    for (size_t i = 0; i < 8 * 16; ++i) {
      const float base = first + static_cast<float>(expert * 8 * 32 + i);
      ASSERT_EQ(FloatAt(gates, expert * 8 * 16 + i), base);
      ASSERT_EQ(FloatAt(ups, expert * 8 * 16 + i), base + 8 * 16);
    }
  }
}

TEST(GgufModel, GgufExpertsMayLieInATensorEach) {
  const ScratchDir scratch;
  const auto with_experts = [&](uint32_t count) {
    GgufModelBytes gguf;
    gguf.Number("llama.expert_count", 3);
    gguf.Number("llama.expert_used_count", 2);
    gguf.Tensor("blk.0.ffn_gate_inp.weight", {8, 3});
    for (uint32_t expert = 0; expert < count; ++expert) {
      gguf.Tensor(Concat("blk.0.ffn_gate.", expert, ".weight"), {8, 16});
      gguf.Tensor(Concat("blk.0.ffn_up.", expert, ".weight"), {8, 16});
      gguf.Tensor(Concat("blk.0.ffn_down.", expert, ".weight"), {16, 8});
    }
    scratch.Write("moe.gguf", gguf.Encode());
    return ModelFile::Open(scratch.File("moe.gguf"));
  };
  const auto model = with_experts(3);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE((*model)->Find("blk.0.ffn_up.2.weight"), nullptr);
  EXPECT_EQ(with_experts(2).status(), NotFound(scratch.File("moe.gguf"),
                                               ": has no tensor blk.0.ffn_gate.2.weight, expected "
                                               "one for each of 3 experts"));
  EXPECT_FALSE(with_experts(4).ok());
}

TEST(GgufModel, AVocabularyAloneOpens) {
  const std::string path = ExternalFile("tokenizers/llama.cpp/ggml-vocab-gpt-2.gguf");
  OUTRIDER_SKIP_WITHOUT(path);
  const std::unique_ptr<ModelFile> model = OpenOrNull(path);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->tensors().empty());
  EXPECT_EQ(model->hyperparameters().architecture, Architecture::kGpt2);
  EXPECT_EQ(model->hyperparameters().vocabulary_size, 50257u);
  EXPECT_EQ(model->ReadTokenizer()->tokens.size(), 50257u);
}

}  // namespace
}  // namespace outrider
