// A key of a config.json is read, or says nothing of arithmetic, or is an error.
#include <string>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/formats/published_configs.h"
#include "tests/formats/tiny_configs.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST(ConfigKeys, WhatIsPublishedIsRead) {
  for (const PublishedConfig& published : kPublishedConfigs) {
    const auto model = HyperparametersFromConfig(published.json, kFile);
    EXPECT_TRUE(model.ok()) << published.name << ": " << model.status();
  }
}

TEST(ConfigKeys, AnUnknownOneIsNamedWithTheFileAndWhatToDo) {
  EXPECT_EQ(Refusal(kLlama, R"("attention_temperature":2)"),
            Unimplemented(kFile,
                          ": key \"attention_temperature\" is unknown here and may change "
                          "what the model computes; if it does not, remove it from the file"));
  for (const std::string_view base : {kGpt2, kT5, kBart, kSwitch, kMixtral}) {
    EXPECT_THAT(std::string(Message(Refusal(base, R"("attention_temperature":2)"))),
                HasSubstr("key \"attention_temperature\" is unknown"));
  }
  // Null says nothing, and no message has a terminal obey it.
  Read(kLlama, R"("attention_temperature":null)");
  EXPECT_THAT(std::string(Message(Refusal(kLlama, R"("a\u001b[2J":1)"))),
              HasSubstr("key \"a\\x1b[2J\" is unknown"));
}

TEST(ConfigKeys, OneOfAnotherFamilyIsToldWithWhatItMeans) {
  const auto refusal = [](std::string_view more) {
    return std::string(Message(Refusal(kLlama, more)));
  };
  EXPECT_EQ(
      Refusal(kLlama, R"("logits_scaling":8.0)"),
      Unimplemented(kFile, ": logits_scaling is 8.0 and is not supported: logits are divided"));
  EXPECT_THAT(refusal(R"("final_logit_softcapping":30)"), HasSubstr("logits are capped softly"));
  EXPECT_THAT(refusal(R"("num_local_experts":8)"), HasSubstr("its layers have experts"));
  EXPECT_THAT(refusal(R"("use_qk_norm":true)"), HasSubstr("queries and keys are normalised"));
  EXPECT_THAT(refusal(R"("rope_interleaved":true)"), HasSubstr("other pairs of dimensions turn"));
  EXPECT_THAT(refusal(R"("dual_chunk_attention_config":{"chunk_size":262144})"),
              HasSubstr("dual_chunk_attention_config is {\"chunk_size\":262144} and is not "
                        "supported: attention goes in chunks"));
  EXPECT_THAT(std::string(Message(Refusal(kMixtral, R"("shared_intermediate_size":64)"))),
              HasSubstr("some experts are used by every token"));
  EXPECT_THAT(std::string(Message(Refusal(kBart, R"("normalize_before":true)"))),
              HasSubstr("norms stand in other places"));
}

TEST(ConfigKeys, OneWhoseValueChangesNothingIsTaken) {
  const Hyperparameters plain = Read(kLlama);
  for (const char* more :
       {R"("logits_scaling":1.0)", R"("logits_scaling":1)", R"("num_local_experts":0)",
        R"("use_qk_norm":false)", R"("rope_interleaved":false)", R"("pruned_heads":{})",
        R"("residual_multiplier":1.0)", R"("attn_logit_softcapping":null)"}) {
    EXPECT_EQ(Read(kLlama, more), plain) << more;
  }
}

TEST(ConfigKeys, ThoseOfRopeAndOfPartsAreLookedAtToo) {
  EXPECT_THAT(std::string(Message(Refusal(
                  kLlama, R"("rope_scaling":{"rope_type":"linear","factor":2,"slope":3})"))),
              HasSubstr("key \"rope_scaling.slope\" is unknown here"));
  EXPECT_THAT(std::string(Message(Refusal(
                  kLlama, R"("rope_scaling":{"rope_type":"default","mrope_section":[16,24,24]})"))),
              HasSubstr("key \"rope_scaling.mrope_section\" is unknown here"));
  const auto seeing = [](std::string_view around, std::string_view within) {
    return std::string(
        Message(HyperparametersFromConfig(
                    Concat(R"({"model_type":"mistral3",)", around, R"("text_config":{)", within,
                           kQwen2, R"(,"model_type":"mistral","sliding_window":null}})"),
                    kFile)
                    .status()));
  };
  EXPECT_EQ(seeing("", ""), "");
  EXPECT_THAT(seeing("", R"("slope":3,)"), HasSubstr("key \"text_config.slope\" is unknown here"));
  EXPECT_THAT(seeing(R"("slope":3,)", ""), HasSubstr("key \"slope\" is unknown here"));
}

}  // namespace
}  // namespace outrider
