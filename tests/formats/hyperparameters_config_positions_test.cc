// How a config.json says where tokens stand, and which of those before them they look at.
#include <string>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/formats/tiny_configs.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST(HyperparametersFromConfig, OldAndNewRopeSpellingsMeanTheSame) {
  const Hyperparameters oldest =
      Read(kLlama, R"("rope_theta":500000.0,"rope_scaling":{"type":"llama3","factor":8.0,
      "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":512})");
  const Hyperparameters older =
      Read(kLlama, R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,
      "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":512})");
  const Hyperparameters newest =
      Read(kLlama, R"("rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3","factor":8.0,
      "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":512})");
  EXPECT_EQ(newest.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(newest.rope.base, 500000.0f);
  EXPECT_EQ(newest.rope.factor, 8.0f);
  EXPECT_EQ(newest.rope.original_context_length, 512u);
  EXPECT_EQ(newest.rope.high_frequency_factor, 4.0f);
  EXPECT_EQ(oldest, newest);
  EXPECT_EQ(older, newest);
}

TEST(HyperparametersFromConfig, ReadsLinearAndYarnScaling) {
  EXPECT_EQ(Read(kLlama, R"("rope_scaling":{"type":"linear","factor":2.5})").rope.factor, 2.5f);

  const Rope yarn = Read(kQwen2, R"("rope_scaling":{"type":"yarn","factor":4.0,
                      "original_max_position_embeddings":512})")
                        .rope;
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.original_context_length, 512u);
  EXPECT_FLOAT_EQ(yarn.attention_factor, 1.138629436f);  // 0.1 ln 4 + 1
  EXPECT_EQ(yarn.yarn_beta_fast, 32.0f);
  const Rope given = Read(kQwen2, R"("rope_scaling":{"type":"yarn","factor":4.0,
                                     "attention_factor":0.5,"beta_slow":2})")
                         .rope;
  EXPECT_EQ(given.attention_factor, 0.5f);
  EXPECT_EQ(given.yarn_beta_slow, 2.0f);
  EXPECT_EQ(given.original_context_length, 2048u);
}

TEST(HyperparametersFromConfig, RefusesRopeItWouldComputeDifferently) {
  for (const char* type : {"dynamic", "su", "mrope"}) {
    const absl::Status status =
        Refusal(kLlama, Concat(R"("rope_scaling":{"type":")", type, R"(","factor":2})"));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr(Concat("config.json: rope_scaling.rope_type is \"", type, "\"")));
  }
  EXPECT_EQ(Refusal(kLlama, R"("rope_parameters":{"partial_rotary_factor":0.5})").code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refusal(kLlama, R"("rope_scaling":{"type":"llama3","factor":8})").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal(kLlama, R"("rope_scaling":{"type":"linear"})").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal(kLlama, R"("rope_scaling":[])").code(), absl::StatusCode::kInvalidArgument);
}

TEST(HyperparametersFromConfig, QwenWindowsCountOnlyWhenSwitchedOn) {
  EXPECT_EQ(Read(kQwen2, R"("sliding_window":128)").sliding_window, std::nullopt);
  EXPECT_EQ(Read(kQwen2, R"("sliding_window":128,"use_sliding_window":true,"max_window_layers":0)")
                .sliding_window,
            128u);
  EXPECT_EQ(Read(kQwen2, R"("sliding_window":128,"use_sliding_window":true,"max_window_layers":4)")
                .sliding_window,
            std::nullopt);
  const absl::Status some =
      Refusal(kQwen2, R"("sliding_window":128,"use_sliding_window":true,"max_window_layers":3)");
  EXPECT_EQ(some, Unimplemented(kFile,
                                ": sliding_window holds for 1 of 4 blocks; it must hold for "
                                "all or none"));
  EXPECT_EQ(Refusal(kQwen2, R"("sliding_window":128,"use_sliding_window":true,"layer_types":[
      "full_attention","sliding_attention","full_attention","sliding_attention"])")
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      Refusal(kQwen2, R"("sliding_window":128,"use_sliding_window":true,"layer_types":[1])").code(),
      absl::StatusCode::kInvalidArgument);
  // Sizes of one model are no defaults.
  EXPECT_EQ(Refusal(kQwen2, R"("use_sliding_window":true,"max_window_layers":0)"),
            NotFound(kFile, ": has no sliding_window"));
  EXPECT_EQ(Refusal(kQwen2, R"("sliding_window":128,"use_sliding_window":true)"),
            NotFound(kFile, ": has no max_window_layers"));
  // Those with experts count blocks otherwise, or not at all.
  constexpr char kUsed[] =
      R"("sliding_window":128,"use_sliding_window":true,"max_window_layers":4)";
  EXPECT_EQ(Read(kQwen3Moe, kUsed).sliding_window, 128u);
  EXPECT_EQ(Refusal(kQwen2, Concat(R"("model_type":"qwen2_moe",)", kUsed)),
            NotFound(kFile, ": has no layer_types"));
  // Of these transformers takes no notice.
  EXPECT_EQ(Refusal(kLlama, kUsed).code(), absl::StatusCode::kUnimplemented);
}

TEST(HyperparametersFromConfig, MistralWindowsCountWheneverGiven) {
  constexpr char kMistral[] = R"("model_type":"mistral","hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":300,
      "max_position_embeddings":2048)";
  EXPECT_EQ(Read(kMistral, R"("sliding_window":128)").sliding_window, 128u);
  EXPECT_EQ(Read(kMistral, R"("sliding_window":null)").sliding_window, std::nullopt);
  EXPECT_EQ(Read(kMistral, R"("sliding_window":null)").architecture, Architecture::kLlama);
  EXPECT_EQ(Read(kMistral, R"("sliding_window":128,"use_sliding_window":false)").sliding_window,
            128u);
  EXPECT_EQ(Read(kMixtral).sliding_window, std::nullopt);
}

TEST(HyperparametersFromConfig, WindowsThatAreAnotherModelsByDefaultMustBeGiven) {
  for (const char* type : {"mistral", "ministral", "gemma2", "gemma3_text", "cohere2", "exaone4"}) {
    EXPECT_EQ(Refusal(kQwen2, Concat(R"("head_dim":16,"model_type":")", type, "\"")),
              NotFound(kFile, ": has no sliding_window"))
        << type;
  }
}

}  // namespace
}  // namespace outrider
