#include "common/tokens/sampling.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kVocabularySize = 100;

std::string ErrorOf(const SamplingOptions& options) {
  const absl::Status status = options.Validate(kVocabularySize);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(status));
}

TEST(SamplingOptions, GoodOnesAreTaken) {
  EXPECT_TRUE(SamplingOptions().Validate(kVocabularySize).ok());
  SamplingOptions options;
  options.temperature = 0.8;
  options.top_k = 1000;  // more than there are: all
  options.top_p = 0;     // only the most probable
  options.min_p = 1;
  options.repetition_penalty = 0.5;
  options.presence_penalty = -2;
  options.frequency_penalty = 2;
  options.logit_bias = {{0, -100}, {99, 100}, {5, -std::numeric_limits<float>::infinity()}};
  options.seed = ~uint64_t{0};
  EXPECT_TRUE(options.Validate(kVocabularySize).ok());
  for (const double temperature : {0.0, -0.0, 1e-4, 100.0}) {
    options.temperature = temperature;
    EXPECT_TRUE(options.Validate(kVocabularySize).ok()) << temperature;
  }
}

TEST(SamplingOptions, ATemperatureOutOfRangeIsRefused) {
  for (const double temperature : {kNaN, kInfinity, -kInfinity, -1.0, 1e-5, 100.5}) {
    SamplingOptions options;
    options.temperature = temperature;
    EXPECT_THAT(ErrorOf(options), HasSubstr("temperature is ")) << temperature;
  }
  SamplingOptions options;
  options.temperature = -0.5;
  EXPECT_EQ(ErrorOf(options), "temperature is -0.5: choose 0 (greedy) or from 1e-04 to 100");
}

TEST(SamplingOptions, ANegativeTopKIsRefused) {
  SamplingOptions options;
  options.top_k = -1;
  EXPECT_EQ(ErrorOf(options), "top_k is -1: choose a number of tokens, or 0 for all");
}

TEST(SamplingOptions, AShareOutOfRangeIsRefused) {
  for (const double share : {kNaN, kInfinity, -0.1, 1.1}) {
    SamplingOptions options;
    options.top_p = share;
    EXPECT_THAT(ErrorOf(options), HasSubstr("top_p is ")) << share;
    options.top_p = 1;
    options.min_p = share;
    EXPECT_THAT(ErrorOf(options), HasSubstr("min_p is ")) << share;
  }
  SamplingOptions options;
  options.top_p = 1.5;
  EXPECT_EQ(ErrorOf(options), "top_p is 1.5: choose from 0 to 1");
}

TEST(SamplingOptions, APenaltyOutOfRangeIsRefused) {
  for (const double penalty : {kNaN, kInfinity, -1.0, 0.0, 101.0}) {
    SamplingOptions options;
    options.repetition_penalty = penalty;
    EXPECT_THAT(ErrorOf(options), HasSubstr("repetition_penalty is ")) << penalty;
  }
  for (const double penalty : {kNaN, -kInfinity, -2.1, 2.1}) {
    SamplingOptions options;
    options.presence_penalty = penalty;
    EXPECT_THAT(ErrorOf(options), HasSubstr("presence_penalty is ")) << penalty;
    options.presence_penalty = 0;
    options.frequency_penalty = penalty;
    EXPECT_THAT(ErrorOf(options), HasSubstr("frequency_penalty is ")) << penalty;
  }
}

TEST(SamplingOptions, ABiasThatMakesNoSenseIsRefused) {
  SamplingOptions options;
  for (const float bias : {NAN, INFINITY, 100.5f, -101.0f}) {
    options.logit_bias = {{3, bias}};
    EXPECT_THAT(ErrorOf(options), HasSubstr("logit_bias of token 3 is ")) << bias;
  }
  for (const TokenId token : {-1, kVocabularySize, std::numeric_limits<TokenId>::max()}) {
    options.logit_bias = {{token, 1}};
    EXPECT_THAT(ErrorOf(options), HasSubstr(": the vocabulary has 0 to 99")) << token;
  }
  options.logit_bias = {{3, 1}, {4, 1}, {3, 2}};
  EXPECT_EQ(ErrorOf(options), "logit_bias names token 3 twice");
}

}  // namespace
}  // namespace outrider
