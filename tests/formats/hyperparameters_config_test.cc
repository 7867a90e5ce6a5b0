#include <string>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/formats/tiny_configs.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HyperparametersFromConfig, ReadsLlama) {
  const Hyperparameters model = Read(kLlama, R"("num_key_value_heads":2,"rms_norm_eps":1e-05)");
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.context_length, 2048u);
  EXPECT_EQ(model.embedding_length, 64u);
  EXPECT_EQ(model.block_count, 2u);
  EXPECT_EQ(model.feed_forward_length, 96u);
  EXPECT_EQ(model.vocabulary_size, 300u);
  EXPECT_THAT(model.head_count, ElementsAre(4, 4));
  EXPECT_THAT(model.head_count_kv, ElementsAre(2, 2));
  EXPECT_EQ(model.key_length, 16u);
  EXPECT_EQ(model.value_length, 16u);
  EXPECT_EQ(model.norm, NormKind::kRms);
  EXPECT_EQ(model.norm_epsilon, 1e-5f);
  EXPECT_EQ(model.activation, Activation::kSilu);
  EXPECT_TRUE(model.gated);
  EXPECT_EQ(model.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(model.rope.dimension_count, 16u);
  EXPECT_EQ(model.rope.base, 10000.0f);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_FALSE(model.is_encoder_decoder());
  EXPECT_EQ(model.experts, Experts{});
}

TEST(HyperparametersFromConfig, NullMeansAbsent) {
  const Hyperparameters model =
      Read(kLlama, R"("num_key_value_heads":null,"head_dim":null,"rope_scaling":null)");
  EXPECT_THAT(model.head_count_kv, ElementsAre(4, 4));
  EXPECT_EQ(model.key_length, 16u);
}

TEST(HyperparametersFromConfig, ReadsMixtral) {
  const Hyperparameters model = Read(kMixtral);
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.experts.count, 8u);
  EXPECT_EQ(model.experts.used_count, 2u);
  EXPECT_EQ(model.experts.feed_forward_length, 96u);
  EXPECT_TRUE(model.experts.renormalize);
  EXPECT_TRUE(model.has_experts(0) && model.has_experts(1));
  EXPECT_FALSE(model.has_experts(2));
  EXPECT_EQ(model.rope.base, 1e6f);
}

TEST(HyperparametersFromConfig, ReadsQwenAndOlmoeExperts) {
  const Hyperparameters qwen = Read(kQwen3Moe, R"("decoder_sparse_step":2,"mlp_only_layers":[3])");
  EXPECT_EQ(qwen.architecture, Architecture::kQwen3Moe);
  EXPECT_EQ(qwen.key_length, 32u);
  EXPECT_EQ(qwen.experts.feed_forward_length, 24u);
  EXPECT_TRUE(qwen.experts.renormalize);
  EXPECT_THAT(qwen.experts.blocks, ElementsAre(false, true, false, false));
  EXPECT_EQ(Read(kQwen3Moe, R"("num_experts":null,"num_local_experts":16)").experts.count, 16u);

  constexpr char kOlmoe[] = R"("model_type":"olmoe","hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":300,"num_experts":8,
      "num_experts_per_tok":2,"max_position_embeddings":2048)";
  const Hyperparameters olmoe = Read(kOlmoe);
  EXPECT_FALSE(olmoe.experts.renormalize);
  EXPECT_EQ(olmoe.norm_epsilon, 1e-5f);
  EXPECT_EQ(Refusal(kOlmoe, R"("clip_qkv":8.0)").code(), absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromConfig, ReadsGpt2) {
  const Hyperparameters model = Read(kGpt2, R"("n_inner":null)");
  EXPECT_EQ(model.feed_forward_length, 256u);
  EXPECT_EQ(Read(kGpt2, R"("n_inner":100)").feed_forward_length, 100u);
  EXPECT_EQ(model.norm, NormKind::kLayer);
  EXPECT_EQ(model.activation, Activation::kGeluTanh);
  EXPECT_FALSE(model.gated);
  EXPECT_EQ(model.rope.style, RopeStyle::kNone);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(Refusal(kGpt2, R"("scale_attn_by_inverse_layer_idx":true)").code(),
            absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromConfig, OnlyATiedT5ScalesItsOutput) {
  const Hyperparameters first = Read(kT5, R"("decoder_start_token_id":0)");
  EXPECT_EQ(first.decoder_block_count, 2u);
  EXPECT_EQ(first.head_count.size(), 4u);
  EXPECT_EQ(first.activation, Activation::kRelu);
  EXPECT_FALSE(first.gated);
  EXPECT_EQ(first.output_scale, 0.125f);  // 64^-0.5
  EXPECT_EQ(first.relative_buckets, 32u);
  EXPECT_EQ(first.relative_max_distance, 128u);
  EXPECT_EQ(first.decoder_start_token, 0u);
  EXPECT_EQ(first.context_length, 512u);

  const Hyperparameters later = Read(
      kT5,
      R"("feed_forward_proj":"gated-gelu","tie_word_embeddings":false,"num_decoder_layers":1)");
  EXPECT_EQ(later.activation, Activation::kGeluTanh);
  EXPECT_TRUE(later.gated);
  EXPECT_FALSE(later.tied_embeddings);
  EXPECT_EQ(later.output_scale, 1.0f);
  EXPECT_EQ(later.decoder_block_count, 1u);

  const Hyperparameters resaved =
      Read(kT5, R"("tie_word_embeddings":true,"scale_decoder_outputs":false)");
  EXPECT_EQ(resaved.output_scale, 1.0f);
}

TEST(HyperparametersFromConfig, ReadsBart) {
  const Hyperparameters model = Read(kBart, R"("scale_embedding":true)");
  EXPECT_EQ(model.block_count, 3u);
  EXPECT_EQ(model.decoder_block_count, 2u);
  EXPECT_EQ(model.activation, Activation::kGeluErf);
  EXPECT_TRUE(model.scale_embeddings);
  EXPECT_EQ(model.decoder_start_token, 2u);
  EXPECT_EQ(model.relative_buckets, 0u);
  EXPECT_EQ(Refusal(kBart, R"("decoder_ffn_dim":97)").code(), absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromConfig, SwitchCountsItsSparseBlocksPerSide) {
  const Hyperparameters model = Read(kSwitch);
  EXPECT_EQ(model.experts.used_count, 1u);
  EXPECT_THAT(model.experts.blocks, ElementsAre(false, true, false, true, false, true,     // step 2
                                                false, true, false, false, true, false));  // step 3
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.output_scale, 0.125f);  // 64^-0.5
  EXPECT_EQ(Read(kSwitch, R"("tie_word_embeddings":false)").output_scale, 1.0f);
  EXPECT_FALSE(Read(kSwitch, R"("num_sparse_encoder_layers":0)").has_experts(0));
  EXPECT_TRUE(Read(kSwitch, R"("num_sparse_encoder_layers":6)").has_experts(0));
}

TEST(HyperparametersFromConfig, AMissingSizeIsNamed) {
  constexpr char kBare[] = R"("model_type":"llama")";
  EXPECT_EQ(Refusal(kBare, R"("a":1)"), NotFound(kFile, ": has no max_position_embeddings"));
  EXPECT_EQ(HyperparametersFromConfig("{}", kFile).status(),
            NotFound(kFile, ": has no model_type"));
  EXPECT_EQ(Refusal(R"("model_type":"qwen3")", Concat(kQwen2, R"(,"model_type":"qwen3")")),
            NotFound(kFile, ": has no head_dim"));
}

TEST(HyperparametersFromConfig, AnImpossibleNumberIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_attention_heads":0)", "num_attention_heads is 0, expected 1 to 65536"},
      {R"("num_attention_heads":-4)", "num_attention_heads is -4, expected 1 to 65536"},
      {R"("num_attention_heads":3)", "hidden_size is 64, no multiple of num_attention_heads, 3"},
      {R"("num_key_value_heads":3)",
       "num_attention_heads is 4 in block 0, no multiple of num_key_value_heads, 3"},
      {R"("vocab_size":0)", "vocab_size is 0, expected 1 to 268435456"},
      {R"("num_hidden_layers":4097)", "num_hidden_layers is 4097, expected 1 to 4096"},
      {R"("num_hidden_layers":18446744073709551615)",
       "num_hidden_layers is 18446744073709551615, expected 1 to 4096"},
      {R"("num_hidden_layers":2.5)", "num_hidden_layers is number, not a whole number"},
      {R"("hidden_size":"64")", "hidden_size is string, not a whole number"},
      {R"("rms_norm_eps":-1e-6)", "rms_norm_eps is -1e-06, not a finite number above zero"},
      {R"("rms_norm_eps":1e300)", "rms_norm_eps is 1e+300, not a finite number above zero"},
      {R"("head_dim":15)", "head_dim is 15, but positions turn pairs of dimensions"},
      {R"("tie_word_embeddings":1)", "tie_word_embeddings is number, not a boolean"},
  };
  for (const auto& [key, message] : cases) {
    EXPECT_EQ(Refusal(kLlama, key), InvalidArgument(kFile, ": ", message));
  }
  EXPECT_EQ(Refusal(kMixtral, R"("num_experts_per_tok":9)"),
            InvalidArgument(kFile, ": num_experts_per_tok is 9, more than num_experts, 8"));
  EXPECT_EQ(Refusal(kT5, R"("relative_attention_num_buckets":6)").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(kQwen3Moe, R"("mlp_only_layers":[4])").code(),
            absl::StatusCode::kInvalidArgument);
}

// As it is published: its weights are quantised, and its rope blends by parts of dimensions.
TEST(HyperparametersFromConfig, ReadsGptOss) {
  constexpr char kGptOss[] = R"("model_type":"gpt_oss","head_dim":32,"num_local_experts":8,
      "num_experts_per_tok":2,"sliding_window":8,"layer_types":["sliding_attention",
      "full_attention","sliding_attention","full_attention"],"swiglu_limit":7.0,
      "swiglu_alpha":1.702,"quantization_config":{"quant_method":"mxfp4"})";
  constexpr char kYarn[] = R"("rope_scaling":{"rope_type":"yarn","factor":32.0,
      "original_max_position_embeddings":64)";
  const Hyperparameters model = Read(kQwen2, Concat(kGptOss, ",", kYarn, R"(,"truncate":false})"));
  EXPECT_EQ(model.activation, Activation::kClampedSilu);
  EXPECT_EQ(model.window_blocks, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(model.experts.feed_forward_length, 96u);
  EXPECT_TRUE(model.experts.renormalize);
  EXPECT_EQ(model.rope.scaling, RopeScaling::kYarn);
  EXPECT_FALSE(model.rope.yarn_whole_dimensions);
  EXPECT_EQ(model.rope.base, 150000.0f);  // where it is not given

  const auto refusal = [](std::string_view base, std::string_view more) {
    return std::string(Message(Refusal(base, more)));
  };
  EXPECT_THAT(refusal(kQwen2, Concat(kGptOss, R"(,"swiglu_limit":8.0)")),
              HasSubstr("gates are clamped at"));
  EXPECT_THAT(refusal(kQwen2, Concat(kGptOss, R"(,"swiglu_alpha":1.5)")),
              HasSubstr("gates are steepened by 1.702"));
  EXPECT_THAT(refusal(kQwen2, Concat(kGptOss, R"(,"hidden_act":"gelu")")),
              HasSubstr("must be silu"));
  EXPECT_THAT(refusal(kQwen2, Concat(kGptOss, ",", kYarn, "}")), HasSubstr("must be false"));
  // transformers' defaults for these are sizes of the published ones.
  EXPECT_THAT(refusal(kQwen2, kGptOss), HasSubstr("has no rope_parameters"));
  EXPECT_THAT(refusal(kQwen2, Concat(kGptOss, R"(,"head_dim":null)")),
              HasSubstr("has no head_dim"));
  constexpr char kBare[] = R"("model_type":"gpt_oss","head_dim":32,"num_local_experts":8,
      "num_experts_per_tok":2)";
  EXPECT_THAT(refusal(kQwen2, kBare), HasSubstr("has no sliding_window"));
  EXPECT_THAT(refusal(kQwen2, Concat(kYarn, R"(,"truncate":false})")),
              HasSubstr("truncate = false is not supported"));
  EXPECT_THAT(refusal(kQwen2, R"("quantization_config":{"quant_method":"mxfp4"})"),
              HasSubstr("quantised with mxfp4"));
}

// Its queries grow by the context that yarn stretches, and cosines and sines keep their length.
TEST(HyperparametersFromConfig, ReadsMinistral3) {
  constexpr char kMinistral3[] = R"("model_type":"ministral3","head_dim":32)";
  const auto with = [&](std::string_view more) {
    return Concat(kMinistral3, R"(,"rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,
        "factor":16.0,"original_max_position_embeddings":128,"max_position_embeddings":2048,)",
                  more, "}");
  };
  constexpr char kPublished[] = R"("mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1)";
  const Hyperparameters model = Read(kQwen2, with(kPublished));
  EXPECT_EQ(model.architecture, Architecture::kMistral3);
  EXPECT_EQ(model.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(model.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(model.rope.base, 1e6f);
  EXPECT_EQ(model.rope.attention_factor, 1.0f);
  EXPECT_EQ(model.query_growth, (QueryGrowth{.scale = 0.1f, .step = 128}));
  EXPECT_EQ(model.norm_epsilon, 1e-5f);
  EXPECT_EQ(model.sliding_window, std::nullopt);
  EXPECT_EQ(Read(kQwen2, R"("rope_scaling":{"type":"yarn","factor":4.0,
                             "original_max_position_embeddings":512})")
                .query_growth,
            std::nullopt);
  // One of the two scales alone says nothing, and neither does a zero.
  for (const char* scales : {R"("mscale":1.0,)", R"("mscale":1.0,"mscale_all_dim":0.0,)", ""}) {
    const std::string more = Concat(scales, R"("llama_4_scaling_beta":0.1)");
    EXPECT_FLOAT_EQ(Read(kQwen2, with(more)).rope.attention_factor, 1.277258872f);  // 0.1 ln 16 + 1
  }

  const auto refusal = [](std::string_view more) {
    return std::string(Message(Refusal(kQwen2, more)));
  };
  EXPECT_THAT(refusal(with(R"("mscale":1.0,"mscale_all_dim":0.5,"llama_4_scaling_beta":0.1)")),
              HasSubstr("rope_parameters.mscale is 1 and rope_parameters.mscale_all_dim 0.5; yarn "
                        "scaling is supported with both the same"));
  EXPECT_THAT(refusal(with(R"("mscale":1.0)")),
              HasSubstr("has no rope_parameters.llama_4_scaling_beta"));
  EXPECT_THAT(refusal(with(R"("llama_4_scaling_beta":-0.1)")),
              HasSubstr("llama_4_scaling_beta is -0.1, not a finite number above zero"));
  EXPECT_THAT(refusal(with(Concat(kPublished, R"(,"rope_type":"default")"))),
              HasSubstr("rope_parameters.rope_type of this family must be yarn"));
  // transformers' defaults for these are sizes of a published one.
  EXPECT_THAT(refusal(kMinistral3), HasSubstr("has no rope_parameters"));
  EXPECT_THAT(refusal(R"("model_type":"ministral3")"), HasSubstr("has no head_dim"));
  // Of others the scales are refused, as they were.
  EXPECT_THAT(refusal(R"("rope_scaling":{"type":"yarn","factor":4.0,"mscale":1.0,
                          "mscale_all_dim":1.0})"),
              HasSubstr("mscale of yarn scaling is not supported"));
}

TEST(HyperparametersFromConfig, WhatIsNotSupportedIsListed) {
  const absl::Status type = Refusal(kLlama, R"("model_type":"mambo")");
  EXPECT_EQ(type.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Message(type)),
              HasSubstr("\"mambo\" is not supported; these are: llama, "
                        "mistral, ministral, ministral3, mixtral, qwen2"));
  for (const char* method : {"gptq", "awq", "fp8", "bitsandbytes"}) {
    const absl::Status status =
        Refusal(kLlama, Concat(R"("quantization_config":{"quant_method":")", method, "\"}"));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(Message(status)), HasSubstr(Concat("quantised with ", method, ";")));
  }
  EXPECT_THAT(std::string(Message(Refusal(kLlama, R"("hidden_act":"gelu_10")"))),
              HasSubstr("hidden_act names activation \"gelu_10\""));
}

TEST(HyperparametersFromConfig, WhatDoesNotRunYetIsToldWithThePartThatIsMissing) {
  for (const auto& [type, part] : {std::pair{"mamba", "Mamba"},
                                   {"qwen3_5", "delta net"},
                                   {"lfm2", "short convolutions"},
                                   {"granitemoehybrid", "Mamba"},
                                   {"gemma3n", "embeddings of their own"},
                                   {"gemma4", "embeddings of their own"},
                                   {"qwen2_5_vl", "images"},
                                   {"bamba", "Mamba"},
                                   {"plamo2", "Mamba"},
                                   {"granitemoeshared", "an expert without a gate"},
                                   {"phimoe", "SparseMixer"},
                                   {"umt5", "a relative bias of its own"},
                                   {"mbart", "norms in other places"},
                                   {"pegasus", "norms in other places"},
                                   {"marian", "sines"},
                                   {"t5gemma", "Gemma's layers"}}) {
    const absl::Status status = Refusal(kLlama, Concat(R"("model_type":")", type, "\""));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr(Concat("\"", type, "\" cannot be run yet")));
    EXPECT_THAT(std::string(Message(status)), HasSubstr(part));
  }
}

// As the 4B model's is published: what transformers fills in is left out.
TEST(HyperparametersFromConfig, OfAModelThatLooksAtImagesTheDecoderIsRead) {
  constexpr char kSmallest[] = R"("model_type":"gemma3","vision_config":{"hidden_size":1152},
      "text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,
      "num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},
      "sliding_window":1024})";
  const Hyperparameters gemma = Read(kSmallest);
  EXPECT_EQ(gemma.architecture, Architecture::kGemma3);
  EXPECT_EQ(gemma.block_count, 34u);
  EXPECT_EQ(gemma.head_count[0], 8u);
  EXPECT_EQ(gemma.head_count_kv[0], 4u);
  EXPECT_EQ(gemma.key_length, 256u);
  EXPECT_EQ(gemma.vocabulary_size, 262208u);
  EXPECT_EQ(gemma.context_length, 131072u);
  EXPECT_TRUE(gemma.tied_embeddings);
  EXPECT_EQ(gemma.rope.factor, 8.0f);
  EXPECT_EQ(gemma.window_rope->scaling, RopeScaling::kNone);

  constexpr char kMistral[] = R"({"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
      "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":300,"head_dim":32,
      "max_position_embeddings":2048,"sliding_window":null)";
  const auto mistral = [&](const char* more, const char* beside) {
    return Concat(R"("model_type":"mistral3","text_config":)", kMistral, more, "}", beside);
  };
  EXPECT_EQ(Read(mistral("", "")).architecture, Architecture::kLlama);  // Small 3.1
  EXPECT_EQ(Read(mistral("", "")).key_length, 32u);
  EXPECT_FALSE(Read(mistral("", "")).tied_embeddings);
  EXPECT_TRUE(Read(mistral("", R"(,"tie_word_embeddings":true)")).tied_embeddings);
  EXPECT_FALSE(Read(mistral(R"(,"tie_word_embeddings":false)", R"(,"tie_word_embeddings":true)"))
                   .tied_embeddings);
  EXPECT_EQ(Read(mistral(R"(,"model_type":"ministral3","rope_parameters":{"rope_type":"yarn",
                "factor":4,"original_max_position_embeddings":512,"llama_4_scaling_beta":0.1})",
                         ""))
                .architecture,
            Architecture::kMistral3);

  EXPECT_EQ(Refusal(R"("model_type":"gemma3")", ""), NotFound(kFile, ": has no text_config"));
  EXPECT_EQ(Refusal(R"("model_type":"gemma3","text_config":7)", "").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(R"("model_type":"gemma3","text_config":{})", ""),
            NotFound(kFile, ": has no text_config.hidden_size"));
  EXPECT_THAT(std::string(Message(Refusal(mistral(R"(,"model_type":"mistral4")", ""), ""))),
              HasSubstr("text_config.model_type \"mistral4\" cannot be run yet"));
}

TEST(HyperparametersFromConfig, ReadsGemma) {
  // The first one's "gelu" is the tanh form; a head's length is never guessed.
  constexpr char kGemma[] = R"("model_type":"gemma","head_dim":32,"hidden_act":"gelu",
      "hidden_activation":null)";
  const Hyperparameters first = Read(kQwen2, kGemma);
  EXPECT_EQ(first.activation, Activation::kGeluTanh);
  EXPECT_TRUE(first.tied_embeddings);
  EXPECT_EQ(first.embedding_scale, 8.0f);
  EXPECT_EQ(first.attention_scale, std::nullopt);
  EXPECT_EQ(Refusal(kQwen2, R"("model_type":"gemma")").code(), absl::StatusCode::kNotFound);

  constexpr char kGemma2[] = R"("model_type":"gemma2","head_dim":32,"sliding_window":8,
      "query_pre_attn_scalar":64)";
  const Hyperparameters second = Read(kQwen2, kGemma2);
  EXPECT_EQ(second.window_blocks, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(second.attention_scale, 0.125f);
  EXPECT_EQ(second.attention_soft_cap, 50.0f);
  EXPECT_EQ(second.output_soft_cap, 30.0f);
  EXPECT_EQ(Read(kQwen2, Concat(kGemma2, R"(,"final_logit_softcapping":null)")).output_soft_cap, 0);

  // Old files and new ones say the two ropes in different ways.
  constexpr char kGemma3[] = R"("model_type":"gemma3_text","head_dim":32,"sliding_window":8,
      "query_pre_attn_scalar":32,"layer_types":["sliding_attention","sliding_attention",
      "sliding_attention","full_attention"])";
  const Hyperparameters third =
      Read(kQwen2, Concat(kGemma3, R"(,"rope_theta":1000000.0,"rope_local_base_freq":10000.0,
                                       "rope_scaling":{"factor":8.0,"rope_type":"linear"})"));
  EXPECT_EQ(third.rope.base, 1e6f);
  EXPECT_EQ(third.rope.scaling, RopeScaling::kLinear);
  ASSERT_TRUE(third.window_rope);
  EXPECT_EQ(third.window_rope->base, 1e4f);
  EXPECT_EQ(third.window_rope->scaling, RopeScaling::kNone);
  EXPECT_EQ(third.attention_scale, std::nullopt);
  EXPECT_EQ(Read(kQwen2, Concat(kGemma3, R"(,"rope_parameters":{
      "full_attention":{"rope_type":"linear","rope_theta":1000000.0,"factor":8.0},
      "sliding_attention":{"rope_type":"default","rope_theta":10000.0}})")),
            third);
  // What either leaves out is its own default; equal ones are one.
  const Hyperparameters bare = Read(kQwen2, Concat(kGemma3, R"(,"rope_parameters":{
      "full_attention":{"rope_type":"default"},
      "sliding_attention":{"rope_type":"linear","factor":2.0}})"));
  EXPECT_EQ(bare.rope.base, 1e6f);
  ASSERT_TRUE(bare.window_rope);
  EXPECT_EQ(bare.window_rope->base, 1e4f);
  EXPECT_EQ(bare.window_rope->factor, 2.0f);
  EXPECT_FALSE(Read(kQwen2, Concat(kGemma3, R"(,"rope_parameters":{
      "full_attention":{"rope_type":"default","rope_theta":5e5},
      "sliding_attention":{"rope_type":"default","rope_theta":5e5}})"))
                   .window_rope);
  EXPECT_EQ(Refusal(kQwen2, Concat(kGemma3, R"(,"use_bidirectional_attention":true)")).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromConfig, ReadsPhi3) {
  constexpr char kPhi3[] = R"("model_type":"phi3","partial_rotary_factor":0.75,
      "original_max_position_embeddings":1024)";
  const auto scaled = [](const char* type, const char* factors) {
    return Concat(R"("model_type":"phi3","partial_rotary_factor":0.75,
        "original_max_position_embeddings":1024,"rope_scaling":{"type":")",
                  type, R"(",)", factors, "}");
  };
  EXPECT_EQ(Read(kQwen2, kPhi3).rope.dimension_count, 12u);
  constexpr char kFactors[] = R"("short_factor":[1,1,1,1,1,1],"long_factor":[1,2,3,4,5,6.5])";
  for (const char* type : {"longrope", "su"}) {
    const Rope rope = Read(kQwen2, scaled(type, kFactors)).rope;
    EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
    EXPECT_EQ(rope.original_context_length, 1024u);
    EXPECT_EQ(rope.long_factors.back(), 6.5f);
    EXPECT_FLOAT_EQ(rope.attention_factor, 1.0488088f);  // sqrt(1 + ln 2 / ln 1024)
  }
  EXPECT_EQ(Refusal(kQwen2, scaled("longrope", R"("short_factor":[1],"long_factor":[1])")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(kQwen2, scaled("longrope", R"("short_factor":[1,1,1,1,1,0],
                                                  "long_factor":[1,2,3,4,5,6])"))
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromConfig, ReadsWhereLayersDoNotTurn) {
  EXPECT_EQ(Read(kQwen2, R"("model_type":"smollm3")").unturned_blocks,
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(Read(kQwen2, R"("model_type":"smollm3")").rope.base, 2e6f);
  EXPECT_EQ(Read(kQwen2, R"("model_type":"smollm3","no_rope_layers":[1,0,1,1])").unturned_blocks,
            (std::vector<bool>{false, true, false, false}));
  const Hyperparameters mixed =
      Read(kQwen2, R"("model_type":"exaone4","sliding_window":8,"sliding_window_pattern":"LLG")");
  EXPECT_EQ(mixed.window_blocks, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(mixed.unturned_blocks, (std::vector<bool>{false, false, true, false}));
  const Hyperparameters whole = Read(kQwen2, R"("model_type":"exaone4","sliding_window":null)");
  EXPECT_EQ(whole.sliding_window, std::nullopt);
  EXPECT_TRUE(whole.unturned_blocks.empty());
}

TEST(HyperparametersFromConfig, ReadsGraniteAndStableLm) {
  const Hyperparameters granite = Read(kLlama, R"("model_type":"granite","embedding_multiplier":12,
      "residual_multiplier":0.22,"attention_multiplier":0.0625,"logits_scaling":8)");
  EXPECT_EQ(granite.embedding_scale, 12.0f);
  EXPECT_EQ(granite.residual_scale, 0.22f);
  EXPECT_EQ(granite.attention_scale, 0.0625f);
  EXPECT_EQ(granite.output_divisor, 8.0f);
  const Hyperparameters with_experts =
      Read(kMixtral, R"("model_type":"granitemoe","residual_multiplier":0.22,"logits_scaling":6)");
  EXPECT_EQ(with_experts.architecture, Architecture::kGraniteMoe);
  EXPECT_EQ(with_experts.residual_scale, 0.22f);
  EXPECT_EQ(with_experts.output_divisor, 6.0f);
  EXPECT_EQ(with_experts.experts.count, 8u);
  EXPECT_EQ(with_experts.experts.feed_forward_length, 96u);
  EXPECT_TRUE(with_experts.experts.renormalize);
  const Hyperparameters stablelm = Read(kQwen2, R"("model_type":"stablelm","layer_norm_eps":1e-3)");
  EXPECT_EQ(stablelm.norm, NormKind::kLayer);
  EXPECT_EQ(stablelm.norm_epsilon, 1e-3f);
  EXPECT_EQ(stablelm.rope.dimension_count, 4u);
  EXPECT_FALSE(stablelm.parallel_blocks);
  EXPECT_FALSE(stablelm.norms_each_head);
  const Hyperparameters of_12b =
      Read(kQwen2, R"("model_type":"stablelm","qk_layernorm":true,"use_parallel_residual":true)");
  EXPECT_TRUE(of_12b.norms_each_head);
  EXPECT_TRUE(of_12b.parallel_blocks);
}

TEST(HyperparametersFromConfig, AnythingButAnObjectIsRefused) {
  for (const char* json : {"[]", "null"}) {
    EXPECT_EQ(HyperparametersFromConfig(json, kFile).status(),
              InvalidArgument(kFile, ": is not a JSON object as config.json must be"))
        << json;
  }
  for (const auto& [json, byte] :
       {std::pair{"{\"model_type\":NaN}", 15}, {"\xff\xfe", 1}, {"{}x", 3}}) {
    EXPECT_EQ(HyperparametersFromConfig(json, kFile).status(),
              InvalidArgument(kFile, ": stops being valid JSON at byte ", byte, " of ",
                              std::string_view(json).size()));
  }
  for (const char* json : {"", "{"}) {
    EXPECT_EQ(HyperparametersFromConfig(json, kFile).status(),
              InvalidArgument(kFile, ": ends after ", std::string_view(json).size(),
                              " bytes in the middle of its JSON; it is cut off, fetch it again"));
  }
  const std::string deep(100000, '[');
  EXPECT_FALSE(HyperparametersFromConfig(deep, kFile).ok());
  const std::string nested = Concat("{\"a\":", deep, std::string(100000, ']'), "}");
  EXPECT_FALSE(HyperparametersFromConfig(nested, kFile).ok());
}

TEST(HyperparametersFromConfig, EveryTruncationIsAnError) {
  const std::string whole = Config(kQwen3Moe);
  ASSERT_TRUE(HyperparametersFromConfig(whole, kFile).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(HyperparametersFromConfig(whole.substr(0, length), kFile).ok()) << length;
  }
}

}  // namespace
}  // namespace outrider
