#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/hyperparameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFile[] = "zoo/tiny.gguf";

// Metadata of one architecture; setting a key again replaces it.
class Metadata {
 public:
  explicit Metadata(std::string architecture) : prefix_(architecture + ".") {
    Put("general.architecture", GgufValueType::kString, PackedString(architecture));
    Uint("context_length", 512).Uint("embedding_length", 64).Uint("block_count", 2);
    Uint("feed_forward_length", 96).Uint("attention.head_count", 4).Uint("vocab_size", 300);
    Float("attention.layer_norm_rms_epsilon", 1e-6f);
  }

  Metadata& Uint(const std::string& key, uint32_t value) {
    return Put(prefix_ + key, GgufValueType::kUint32, Packed(value));
  }
  Metadata& Float(const std::string& key, float value) {
    return Put(prefix_ + key, GgufValueType::kFloat32, Packed(value));
  }
  Metadata& Text(const std::string& key, std::string_view value) {
    return Put(prefix_ + key, GgufValueType::kString, PackedString(value));
  }
  Metadata& Flag(const std::string& key, bool value) {
    return Put(prefix_ + key, GgufValueType::kBool, Packed(value));
  }
  Metadata& Uints(const std::string& key, const std::vector<uint32_t>& values) {
    std::string elements;
    for (const uint32_t value : values) elements += Packed(value);
    return Put(prefix_ + key, GgufValueType::kArray,
               PackedArray(GgufValueType::kUint32, values.size(), elements));
  }
  Metadata& General(const std::string& key, std::string_view value) {
    return Put("general." + key, GgufValueType::kString, PackedString(value));
  }
  Metadata& Tokens(uint32_t count) {
    std::string elements;
    for (uint32_t i = 0; i < count; ++i) elements += PackedString(Concat("t", i));
    return Put("tokenizer.ggml.tokens", GgufValueType::kArray,
               PackedArray(GgufValueType::kString, count, elements));
  }
  Metadata& Without(const std::string& key) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == prefix_ + key; });
    return *this;
  }
  Metadata& Tensor(std::string_view name, const std::vector<uint64_t>& dims) {
    tensors_.push_back(PackedTensor(name, dims, 0, data_.size()));
    uint64_t elements = 1;
    for (const uint64_t dim : dims) elements *= dim;
    data_.resize(data_.size() + (elements * 4 + 31) / 32 * 32, '\0');
    return *this;
  }

  absl::StatusOr<Hyperparameters> Read() const {
    GgufBytes bytes;
    for (const auto& [key, encoded] : keys_) bytes.keys.push_back(encoded);
    bytes.tensors = tensors_;
    bytes.data = data_;
    const std::string file = bytes.Encode();
    absl::StatusOr<GgufFile> gguf = GgufFile::Parse(std::as_bytes(std::span(file)), kFile);
    if (!gguf.ok()) return gguf.status();
    return HyperparametersFromGguf(*gguf, kFile);
  }
  Hyperparameters ReadOrFail() const {
    absl::StatusOr<Hyperparameters> model = Read();
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : Hyperparameters{};
  }
  absl::Status Refusal() const { return Read().status(); }

 private:
  Metadata& Put(const std::string& key, GgufValueType type, std::string_view payload) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
    keys_.emplace_back(key, PackedKey(key, type, payload));
    return *this;
  }

  std::string prefix_;
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<std::string> tensors_;
  std::string data_;
};

Hyperparameters ThroughGguf(const Hyperparameters& model) {
  const ScratchDir dir;
  const std::string path = dir.File("tiny.gguf");
  GgufWriter writer;
  AddHyperparameterMetadata(model, writer);
  EXPECT_TRUE(writer.Begin(path).ok() && writer.Commit().ok());
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  absl::StatusOr<Hyperparameters> read = HyperparametersFromGguf(*file, path);
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

TEST(HyperparametersFromGguf, AbsentKeysTakeTheDocumentedDefaults) {
  const Hyperparameters model = Metadata("llama").ReadOrFail();
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.name, "tiny");
  EXPECT_THAT(model.head_count, ElementsAre(4, 4));
  EXPECT_THAT(model.head_count_kv, ElementsAre(4, 4));
  EXPECT_EQ(model.key_length, 16u);
  EXPECT_EQ(model.value_length, 16u);
  EXPECT_EQ(model.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(model.rope.dimension_count, 16u);
  EXPECT_EQ(model.rope.base, 10000.0f);
  EXPECT_EQ(model.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(model.norm_epsilon, 1e-6f);
  EXPECT_EQ(model.sliding_window, std::nullopt);
  EXPECT_FALSE(model.tied_embeddings);  // a vocabulary alone says nothing about matrices
  EXPECT_EQ(Metadata("llama").General("name", "Tiny Llama").ReadOrFail().name, "Tiny Llama");
}

TEST(HyperparametersFromGguf, HeadCountsMayBeOneForEachBlock) {
  const Hyperparameters model = Metadata("llama")
                                    .Uints("attention.head_count", {4, 8})
                                    .Uints("attention.head_count_kv", {2, 1})
                                    .Uint("attention.key_length", 16)
                                    .ReadOrFail();
  EXPECT_THAT(model.head_count, ElementsAre(4, 8));
  EXPECT_THAT(model.head_count_kv, ElementsAre(2, 1));
  EXPECT_EQ(Metadata("llama").Uints("attention.head_count", {4, 4, 4}).Refusal(),
            InvalidArgument(kFile,
                            ": llama.attention.head_count has 3 elements, the model 2 "
                            "blocks"));
  EXPECT_EQ(Metadata("llama").Uints("attention.head_count_kv", {4, 0}).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromGguf, TheVocabularyIsTheMatrixThenTheKeyThenTheTokens) {
  Metadata metadata("llama");
  metadata.Tokens(7);
  EXPECT_EQ(metadata.ReadOrFail().vocabulary_size, 300u);
  metadata.Without("vocab_size");
  EXPECT_EQ(metadata.ReadOrFail().vocabulary_size, 7u);
  metadata.Tensor("token_embd.weight", {64, 9});
  EXPECT_EQ(metadata.ReadOrFail().vocabulary_size, 9u);
  EXPECT_EQ(Metadata("llama").Without("vocab_size").Refusal().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Metadata("llama").Without("vocab_size").Tokens(0).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromGguf, ReadsRopeScalingOldAndNew) {
  EXPECT_EQ(Metadata("llama").Float("rope.scale_linear", 4).ReadOrFail().rope.factor, 4.0f);
  const Rope linear = Metadata("llama")
                          .Text("rope.scaling.type", "linear")
                          .Float("rope.scaling.factor", 2)
                          .ReadOrFail()
                          .rope;
  EXPECT_EQ(linear.scaling, RopeScaling::kLinear);
  const Rope yarn = Metadata("qwen2")
                        .Text("rope.scaling.type", "yarn")
                        .Float("rope.scaling.factor", 4)
                        .Uint("rope.scaling.original_context_length", 128)
                        .ReadOrFail()
                        .rope;
  EXPECT_EQ(yarn.style, RopeStyle::kHalves);
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.original_context_length, 128u);
  EXPECT_FLOAT_EQ(yarn.attention_factor, 1.138629436f);
  EXPECT_EQ(Metadata("llama").Text("rope.scaling.type", "dynamic").Refusal(),
            Unimplemented(kFile,
                          ": llama.rope.scaling.type is \"dynamic\"; supported are none, "
                          "linear, yarn and longrope"));
}

TEST(HyperparametersFromGguf, TheTensorsTellLlama3ScalingAndTiedEmbeddings) {
  Metadata metadata("llama");
  metadata.Tensor("rope_freqs.weight", {8});
  EXPECT_EQ(metadata.ReadOrFail().rope.scaling, RopeScaling::kLlama3);
  EXPECT_TRUE(metadata.ReadOrFail().tied_embeddings);
  metadata.Tensor("output.weight", {64, 300});
  EXPECT_FALSE(metadata.ReadOrFail().tied_embeddings);
  metadata.Float("rope.scaling.factor", 2);
  EXPECT_EQ(metadata.Refusal().code(), absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromGguf, ExpertsFollowTheirArchitecture) {
  const auto with_experts = [](std::string architecture) {
    Metadata metadata(std::move(architecture));
    metadata.Uint("expert_count", 8).Uint("expert_used_count", 2);
    return metadata;
  };
  const Experts mixtral = with_experts("llama").ReadOrFail().experts;
  EXPECT_TRUE(mixtral.renormalize);
  EXPECT_EQ(mixtral.feed_forward_length, 96u);
  EXPECT_THAT(mixtral.blocks, ElementsAre(true, true));
  EXPECT_EQ(with_experts("qwen3moe").ReadOrFail().experts.feed_forward_length, 48u);
  EXPECT_FALSE(with_experts("olmoe").ReadOrFail().experts.renormalize);
  EXPECT_TRUE(
      with_experts("olmoe").Flag("expert_weights_norm", true).ReadOrFail().experts.renormalize);
  const Experts granite = with_experts("granitemoe").ReadOrFail().experts;
  EXPECT_TRUE(granite.renormalize);
  EXPECT_EQ(granite.feed_forward_length, 96u);
  EXPECT_EQ(Metadata("granitemoe").Refusal().code(), absl::StatusCode::kNotFound);
  // Granite 3.1's relatives have an expert for every token.
  EXPECT_THAT(
      Message(with_experts("granitemoe").Uint("expert_shared_feed_forward_length", 48).Refusal()),
      HasSubstr("expert_shared_feed_forward_length = 48 is not supported"));
  EXPECT_EQ(Metadata("llama").ReadOrFail().experts, Experts{});
  EXPECT_EQ(Metadata("qwen3moe").Refusal().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(with_experts("llama").Uint("expert_used_count", 9).Refusal(),
            InvalidArgument(kFile,
                            ": llama.expert_used_count is 9, more than llama.expert_count, "
                            "8"));
  EXPECT_EQ(with_experts("llama").Uint("expert_gating_func", 2).Refusal().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(with_experts("llama").Uint("expert_shared_count", 1).Refusal().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(with_experts("llama").Uints("expert_layers", {2}).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromGguf, ReadsGpt2AndT5) {
  Metadata gpt2("gpt2");
  EXPECT_EQ(gpt2.Refusal().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(gpt2.Refusal())), HasSubstr("gpt2.attention.layer_norm_epsilon"));
  gpt2.Float("attention.layer_norm_epsilon", 1e-5f);
  EXPECT_EQ(gpt2.ReadOrFail().norm, NormKind::kLayer);
  EXPECT_EQ(gpt2.ReadOrFail().activation, Activation::kGeluTanh);

  Metadata t5("t5");
  t5.Uint("attention.relative_buckets_count", 32).Uint("decoder_start_token_id", 0);
  t5.Uint("attention.key_length", 8).Uint("decoder_block_count", 1);
  t5.Tensor("token_embd.weight", {64, 300});
  const Hyperparameters tied = t5.ReadOrFail();
  EXPECT_EQ(tied.decoder_block_count, 1u);
  EXPECT_EQ(tied.head_count.size(), 3u);
  EXPECT_EQ(tied.activation, Activation::kRelu);
  EXPECT_EQ(tied.output_scale, 0.125f);
  EXPECT_EQ(tied.relative_max_distance, 128u);
  t5.Tensor("dec.blk.0.ffn_gate.weight", {64, 96}).Tensor("output.weight", {64, 300});
  const Hyperparameters untied = t5.ReadOrFail();
  EXPECT_TRUE(untied.gated);
  EXPECT_EQ(untied.activation, Activation::kGeluTanh);
  EXPECT_EQ(untied.output_scale, 1.0f);
}

TEST(HyperparametersFromGguf, AMissingOrImpossibleKeyIsNamed) {
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    const absl::Status status = Metadata("llama").Without(key).Refusal();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << key;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(Concat("llama.", key)));
  }
  const std::pair<const char*, uint32_t> numbers[] = {{"attention.head_count", 0},
                                                      {"attention.head_count", 65537},
                                                      {"block_count", 0},
                                                      {"block_count", 4097},
                                                      {"vocab_size", 0},
                                                      {"embedding_length", 63},
                                                      {"rope.dimension_count", 15},
                                                      {"rope.dimension_count", 18},
                                                      {"rope.dimension_count", 8},
                                                      {"attention.key_length", 0},
                                                      {"attention.head_count_kv", 3}};
  for (const auto& [key, value] : numbers) {
    const absl::Status status = Metadata("llama").Uint(key, value).Refusal();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key << " = " << value;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(Concat("llama.", key)));
  }
  for (const float value : {0.0f, -1e-6f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(Metadata("llama").Float("attention.layer_norm_rms_epsilon", value).Read().ok());
    EXPECT_FALSE(Metadata("llama").Float("rope.freq_base", value).Read().ok());
    EXPECT_FALSE(Metadata("llama").Float("rope.scaling.factor", value).Read().ok());
  }
}

TEST(HyperparametersFromGguf, ArithmeticWeDoNotDoIsRefused) {
  // The list has those that run.
  EXPECT_EQ(Metadata("mambo").Refusal(),
            Unimplemented(kFile,
                          ": architecture \"mambo\" is not supported; these are: llama, "
                          "mistral3, qwen2, qwen2moe, qwen3, qwen3moe, olmo2, olmoe, gemma, "
                          "gemma2, gemma3, phi3, smollm3, granite, granitemoe, stablelm, "
                          "cohere2, exaone4, gpt-oss, gpt2"));
  EXPECT_EQ(Metadata("qwen35").Refusal(),
            Unimplemented(kFile,
                          ": architecture \"qwen35\" cannot be run yet: its gated delta net layers "
                          "keep a recurrent state"));
  EXPECT_EQ(Metadata("gemma-embedding").Refusal(),
            Unimplemented(kFile,
                          ": architecture \"gemma-embedding\" cannot be run yet: it is an encoder, "
                          "which reads a text and writes none"));
}

TEST(HyperparametersFromGguf, WindowsAreANumberOrAFlagForEveryBlock) {
  Metadata gemma("gemma3");
  gemma.Uint("block_count", 7).Uint("attention.sliding_window", 8);
  const std::vector<bool> customary = {true, true, true, true, true, false, true};
  EXPECT_EQ(gemma.ReadOrFail().window_blocks, customary);
  EXPECT_EQ(gemma.ReadOrFail().window_rope, std::nullopt);
  const Hyperparameters turned = gemma.Float("rope.freq_base", 1e6f).ReadOrFail();
  EXPECT_EQ(turned.rope.base, 1e6f);
  ASSERT_TRUE(turned.window_rope);
  EXPECT_EQ(turned.window_rope->base, 10000.0f);
  EXPECT_EQ(gemma.Uint("attention.sliding_window_pattern", 2).ReadOrFail().window_blocks,
            (std::vector<bool>{true, false, true, false, true, false, true}));
  EXPECT_EQ(gemma.Uints("attention.sliding_window_pattern", {0, 1, 0, 0, 0, 0, 0})
                .ReadOrFail()
                .window_blocks,
            (std::vector<bool>{false, true, false, false, false, false, false}));
  // All of them, or none.
  const Hyperparameters all =
      gemma.Uints("attention.sliding_window_pattern", {1, 1, 1, 1, 1, 1, 1}).ReadOrFail();
  EXPECT_TRUE(all.window_blocks.empty() && all.has_window(6));
  EXPECT_EQ(gemma.Uints("attention.sliding_window_pattern", {0, 0, 0, 0, 0, 0, 0})
                .ReadOrFail()
                .sliding_window,
            std::nullopt);
  EXPECT_EQ(gemma.Uints("attention.sliding_window_pattern", {1, 0}).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gemma.Uints("attention.sliding_window_pattern", {1, 0, 1, 0, 1, 0, 2}).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Metadata("gemma2").ReadOrFail().sliding_window, 4096u);
}

TEST(HyperparametersFromGguf, ScalesAreTheirArchitectures) {
  const Hyperparameters gemma = Metadata("gemma2").ReadOrFail();
  EXPECT_EQ(gemma.embedding_scale, 8.0f);
  EXPECT_EQ(gemma.attention_scale, std::nullopt);
  // The 27B model's queries are scaled by its width.
  EXPECT_EQ(Metadata("gemma2")
                .Uint("block_count", 46)
                .Uint("attention.key_length", 32)
                .ReadOrFail()
                .attention_scale,
            0.25f);
  for (const char* architecture : {"granite", "granitemoe"}) {
    Metadata metadata(architecture);
    metadata.Float("embedding_scale", 12)
        .Float("residual_scale", 0.22f)
        .Float("attention.scale", 0.5f)
        .Float("logit_scale", 8)
        .Uint("expert_count", 8)
        .Uint("expert_used_count", 2);
    const Hyperparameters granite = metadata.ReadOrFail();
    EXPECT_EQ(granite.embedding_scale, 12.0f);
    EXPECT_EQ(granite.residual_scale, 0.22f);
    EXPECT_EQ(granite.output_divisor, 8.0f);
    EXPECT_EQ(granite.output_scale, 1.0f);
    EXPECT_EQ(granite.attention_scale, 0.5f);
    EXPECT_EQ(metadata.Flag("rope.scaling.finetuned", false).ReadOrFail().rope.style,
              RopeStyle::kNone);
  }
}

TEST(HyperparametersFromGguf, Gemma2IsCappedWhereItsFileDoesNotSayOtherwise) {
  const Hyperparameters silent = Metadata("gemma2").ReadOrFail();
  EXPECT_EQ(silent.attention_soft_cap, 50.0f);
  EXPECT_EQ(silent.output_soft_cap, 30.0f);
  const Hyperparameters other = Metadata("gemma2")
                                    .Float("attn_logit_softcapping", 40)
                                    .Float("final_logit_softcapping", 0)
                                    .ReadOrFail();
  EXPECT_EQ(other.attention_soft_cap, 40.0f);
  EXPECT_EQ(other.output_soft_cap, 0.0f);
  EXPECT_EQ(ThroughGguf(other), other);
  EXPECT_EQ(Metadata("gemma3").ReadOrFail().output_soft_cap, 0.0f);
  EXPECT_EQ(Metadata("gemma2").Float("attn_logit_softcapping", -1).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromGguf, LongRopeIsTwoTensors) {
  Metadata phi("phi3");
  phi.Tensor("rope_factors_long.weight", {8}).Float("rope.scaling.attn_factor", 1.25f);
  EXPECT_EQ(phi.Refusal().code(), absl::StatusCode::kNotFound);  // the original context
  const Rope rope = phi.Uint("rope.scaling.original_context_length", 128).ReadOrFail().rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(rope.original_context_length, 128u);
  EXPECT_EQ(rope.attention_factor, 1.25f);
}

TEST(HyperparametersFromGguf, AFactorThatItsScalingDoesNotGoByIsRefused) {
  const auto refusal = [](Metadata metadata, const char* key, float value) {
    return metadata.Float(key, value).Refusal();
  };
  constexpr char kLength[] = "rope.scaling.attn_factor";
  EXPECT_EQ(refusal(Metadata("llama"), kLength, 1.25f),
            Unimplemented(kFile,
                          ": llama.rope.scaling.attn_factor = 1.25 is not supported but with yarn "
                          "and longrope scaling"));
  Metadata linear = Metadata("llama").Text("rope.scaling.type", "linear");
  linear.Float("rope.scaling.factor", 2);
  EXPECT_EQ(refusal(linear, kLength, 1.25f).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(linear.Float(kLength, 1).ReadOrFail().rope.factor, 2.0f);
  Metadata llama3 = Metadata("llama").Tensor("rope_freqs.weight", {8});
  EXPECT_EQ(refusal(llama3, kLength, 1.25f).code(), absl::StatusCode::kUnimplemented);

  Metadata phi = Metadata("phi3").Text("rope.scaling.type", "longrope");
  phi.Uint("rope.scaling.original_context_length", 128).Tensor("rope_factors_long.weight", {8});
  EXPECT_EQ(refusal(phi, "rope.scaling.factor", 4),
            Unimplemented(kFile,
                          ": phi3.rope.scaling.factor = 4 is not supported with longrope scaling, "
                          "whose divisors have the factor"));
  EXPECT_EQ(refusal(phi, "rope.scale_linear", 4).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(phi.Float("rope.scaling.factor", 1).ReadOrFail().rope.scaling, RopeScaling::kLongRope);
}

TEST(HyperparametersFromGguf, QueriesOfMinistral3GrowByTheContextThatIsStretched) {
  Metadata ministral("mistral3");
  EXPECT_EQ(ministral.ReadOrFail().query_growth, std::nullopt);
  EXPECT_EQ(ministral.Float("attention.temperature_scale", 0).ReadOrFail().query_growth,
            std::nullopt);
  ministral.Float("attention.temperature_scale", 0.1f);
  EXPECT_EQ(ministral.ReadOrFail().query_growth, (QueryGrowth{.scale = 0.1f, .step = 512}));
  EXPECT_EQ(ministral.ReadOrFail().rope.style, RopeStyle::kInterleaved);
  ministral.Text("rope.scaling.type", "yarn").Float("rope.scaling.factor", 4);
  ministral.Uint("rope.scaling.original_context_length", 128);
  EXPECT_EQ(ministral.ReadOrFail().query_growth, (QueryGrowth{.scale = 0.1f, .step = 128}));
  // Of cosines and sines.
  EXPECT_FLOAT_EQ(ministral.ReadOrFail().rope.attention_factor, 1.138629436f);  // 0.1 ln 4 + 1
  ministral.Float("rope.scaling.yarn_log_multiplier", 0);
  EXPECT_FLOAT_EQ(ministral.ReadOrFail().rope.attention_factor, 1.138629436f);
  ministral.Float("rope.scaling.yarn_log_multiplier", 1);
  EXPECT_EQ(ministral.ReadOrFail().rope.attention_factor, 1.0f);
  ministral.Float("rope.scaling.attn_factor", 0.5f);
  EXPECT_EQ(ministral.ReadOrFail().rope.attention_factor, 0.5f);
  EXPECT_EQ(ministral.Float("rope.scaling.yarn_log_multiplier", 0.5f).Refusal(),
            Unimplemented(kFile,
                          ": mistral3.rope.scaling.yarn_log_multiplier = 0.5 is not supported, "
                          "only 0 and 1 are"));
  EXPECT_EQ(Metadata("mistral3").Float("attention.temperature_scale", -0.1f).Refusal().code(),
            absl::StatusCode::kInvalidArgument);
}

// Keys that change arithmetic are refused, never ignored.
TEST(HyperparametersFromGguf, AKeyIsReadOrNeutralOrRefused) {
  const auto refusal = [](const char* key, float value) {
    return Metadata("llama").Float(key, value).Refusal();
  };
  EXPECT_EQ(refusal("attn_logit_softcapping", 30),
            Unimplemented(kFile,
                          ": llama.attn_logit_softcapping = 30 is not supported: scores are "
                          "capped softly"));
  for (const char* key :
       {"attention.clamp_kqv", "residual_scale", "embedding_scale", "attention.scale",
        "attention.sliding_window_pattern", "rope.freq_base_swa", "rope.scaling.yarn_ext_factor",
        "attention.temperature_scale", "rope.scaling.yarn_log_multiplier"}) {
    EXPECT_EQ(refusal(key, 30).code(), absl::StatusCode::kUnimplemented) << key;
    EXPECT_THAT(std::string(Message(refusal(key, 30))), HasSubstr(key));
  }
  EXPECT_EQ(Metadata("llama").Flag("attention.causal", false).Refusal(),
            Unimplemented(kFile,
                          ": llama.attention.causal = 0 is not supported: every token sees "
                          "those after it too"));
  EXPECT_EQ(Metadata("llama").Text("residual_scale", "1").Refusal().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Message(refusal("attention.mood", 0))),
              HasSubstr("llama.attention.mood is unknown here and may change"));
  // An encoder-decoder's key is not a decoder's.
  EXPECT_EQ(refusal("attention.relative_buckets_count", 32).code(),
            absl::StatusCode::kUnimplemented);

  EXPECT_TRUE(Metadata("llama")
                  .Float("residual_scale", 1)
                  .Float("embedding_scale", 1)
                  .Flag("attention.causal", true)
                  .Uint("expert_shared_count", 0)
                  .Text("tensor_data_layout", "Meta AI original pth")
                  .Flag("use_parallel_residual", true)
                  .Flag("rope.scaling.finetuned", true)
                  .Float("rope.scaling.yarn_ext_factor", 0)
                  .Read()
                  .ok());
  EXPECT_TRUE(Metadata("llama")
                  .Text("rope.scaling.type", "yarn")
                  .Float("rope.scaling.factor", 4)
                  .Float("rope.scaling.yarn_ext_factor", 1)
                  .Read()
                  .ok());
}

}  // namespace
}  // namespace outrider
