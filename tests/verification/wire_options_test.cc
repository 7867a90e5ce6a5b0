#include "common/verification/wire_options.h"

#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kVocabularySize = 1000;

// Through the bytes, as the other side gets it.
SamplingOptions ThereAndBack(const SamplingOptions& options) {
  v1::Sampling sent;
  ToWire(options, sent);
  v1::Sampling received;
  EXPECT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  return *FromWire(received);
}

void ExpectSame(const SamplingOptions& a, const SamplingOptions& b) {
  EXPECT_EQ(a.temperature, b.temperature);
  EXPECT_EQ(a.top_k, b.top_k);
  EXPECT_EQ(a.top_p, b.top_p);
  EXPECT_EQ(a.min_p, b.min_p);
  EXPECT_EQ(a.repetition_penalty, b.repetition_penalty);
  EXPECT_EQ(a.presence_penalty, b.presence_penalty);
  EXPECT_EQ(a.frequency_penalty, b.frequency_penalty);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.sample, b.sample);
  ASSERT_EQ(a.logit_bias.size(), b.logit_bias.size());
  for (size_t i = 0; i < a.logit_bias.size(); ++i) {
    EXPECT_EQ(a.logit_bias[i].token, b.logit_bias[i].token);
    EXPECT_EQ(a.logit_bias[i].bias, b.logit_bias[i].bias);
  }
}

TEST(WireOptions, ThereIsALimitToEverythingThatMayBeRepeated) {
  v1::Stops stops;
  for (int i = 0; i <= kStopStringsMax; ++i) stops.add_strings("");
  EXPECT_EQ(Message(FromWire(stops, 100).status()),
            "65 stop strings are more than the 64 there may be");
  stops.clear_strings();
  stops.add_strings(std::string(kStopStringBytesMax, 'a'));
  EXPECT_TRUE(FromWire(stops, 100).ok());
  stops.add_strings(std::string(kStopStringBytesMax + 1, 'a'));
  EXPECT_EQ(Message(FromWire(stops, 100).status()),
            "a stop string of 1025 bytes is longer than the 1024 that one may have");
  stops.clear_strings();
  for (int i = 0; i <= kEndTokensMax; ++i) stops.add_end_tokens(7);
  EXPECT_EQ(Message(FromWire(stops, 100).status()),
            "257 end tokens are more than the 256 there may be");
  v1::Sampling sampling;
  for (int i = 0; i <= kLogitBiasesMax; ++i) sampling.add_logit_bias();
  EXPECT_EQ(Message(FromWire(sampling).status()),
            "4097 logit biases are more than the 4096 there may be");
}

TEST(WireOptions, SamplingArrivesAsItWasMeantToTheLastBit) {
  ExpectSame(ThereAndBack({}), {});
  const SamplingOptions all = {
      .temperature = 0.7999999999999999,
      .top_k = std::numeric_limits<int32_t>::max(),
      .top_p = 0.95,
      .min_p = 0.05,
      .repetition_penalty = 1.1,
      .presence_penalty = -0.5,
      .frequency_penalty = 2,
      .logit_bias = {{7, -3.25f}, {0, -std::numeric_limits<float>::infinity()}},
      .seed = ~uint64_t{0},
      .sample = 3};
  ExpectSame(ThereAndBack(all), all);
}

TEST(WireOptions, WhatIsOffTakesNoBytes) {
  v1::Sampling wire;
  ToWire(SamplingOptions(), wire);
  EXPECT_EQ(wire.ByteSizeLong(), 0u);
  v1::Stops stops;
  ToWire(StopOptions(), stops);
  EXPECT_EQ(stops.ByteSizeLong(), 0u);
}

// 0 is a value of its own for a device, and "off" on the wire.
TEST(WireOptions, ATopPOfNothingStaysTheMostProbableToken) {
  const SamplingOptions arrived = ThereAndBack({.temperature = 1, .top_p = 0});
  EXPECT_GT(arrived.top_p, 0);
  EXPECT_LT(arrived.top_p, 1e-300);
  EXPECT_TRUE(arrived.Validate(kVocabularySize).ok());
}

TEST(WireOptions, StopsArriveAsTheyWereMeant) {
  const StopOptions sent = {.at_end_of_generation = false,
                            .end_tokens = {5, 999},
                            .strings = {"\nUser:", "###"},
                            .max_tokens = 7};
  v1::Stops wire;
  ToWire(sent, wire);
  const StopOptions arrived = *FromWire(wire, kVocabularySize);
  EXPECT_FALSE(arrived.at_end_of_generation);
  EXPECT_THAT(arrived.end_tokens, ElementsAre(5, 999));
  EXPECT_THAT(arrived.strings, ElementsAre("\nUser:", "###"));
  EXPECT_EQ(arrived.max_tokens, 7u);
  EXPECT_EQ(FromWire(v1::Stops(), kVocabularySize)->max_tokens, std::nullopt);
  EXPECT_TRUE(FromWire(v1::Stops(), kVocabularySize)->at_end_of_generation);
}

TEST(WireOptions, NumbersThatNoVocabularyHasAreRefused) {
  v1::Sampling sampling;
  sampling.set_top_k(0x80000000);
  EXPECT_EQ(Message(FromWire(sampling).status()),
            "a top_k of 2147483648 is more than any vocabulary has");
  sampling.Clear();
  sampling.add_logit_bias()->set_token(0xffffffff);
  EXPECT_FALSE(FromWire(sampling).ok());
  v1::Stops stops;
  stops.add_end_tokens(1000);
  EXPECT_EQ(Message(FromWire(stops, kVocabularySize).status()),
            "token 1000 is outside the vocabulary of 0 to 999");
  EXPECT_FALSE(TokenFromWire(0x80000000, std::numeric_limits<int32_t>::max()).ok());
  EXPECT_EQ(*TokenFromWire(999, kVocabularySize), 999);
}

TEST(WireOptions, FinishesKeepTheirNames) {
  EXPECT_EQ(ToWire(std::nullopt), v1::FINISH_NONE);
  EXPECT_EQ(ToWire(FinishReason::kEndToken), v1::FINISH_END_TOKEN);
  EXPECT_EQ(ToWire(FinishReason::kStopString), v1::FINISH_STOP_STRING);
  EXPECT_EQ(ToWire(FinishReason::kTokenLimit), v1::FINISH_TOKEN_LIMIT);
}

}  // namespace
}  // namespace outrider
