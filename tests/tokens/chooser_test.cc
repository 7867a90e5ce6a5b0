#include "common/tokens/chooser.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/tokens/plain_choice.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A chooser with everything around it, for one vocabulary.
class Bench {
 public:
  explicit Bench(size_t vocabulary_size)
      : size_(static_cast<int32_t>(vocabulary_size)), scratch_(size_), history_(HistoryOf({})) {}

  TokenHistory HistoryOf(const std::vector<TokenId>& prompt,
                         const std::vector<TokenId>& reply = {}) const {
    TokenHistory history({.vocabulary_size = size_, .capacity = 1000, .counts_tokens = true});
    EXPECT_TRUE(history.Append(prompt).ok());
    history.StartReply();
    EXPECT_TRUE(history.Append(reply).ok());
    return history;
  }

  absl::StatusOr<TokenId> Try(const SamplingOptions& options, const std::vector<float>& logits,
                              uint32_t position, const NodeHistory& history) {
    const absl::StatusOr<Chooser> chooser = Chooser::Create(options, size_);
    if (!chooser.ok()) return chooser.status();
    return chooser->Choose(logits, position, history, scratch_);
  }

  TokenId Choose(const SamplingOptions& options, const std::vector<float>& logits,
                 uint32_t position, const NodeHistory& history) {
    const absl::StatusOr<TokenId> token = Try(options, logits, position, history);
    EXPECT_TRUE(token.ok()) << token.status();
    return token.value_or(-1);
  }

  TokenId Choose(const SamplingOptions& options, const std::vector<float>& logits,
                 uint32_t position = 0) {
    return Choose(options, logits, position, {history_});
  }

  std::string ErrorOf(const SamplingOptions& options, const std::vector<float>& logits) {
    const absl::StatusOr<TokenId> token = Try(options, logits, 12, {history_});
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(token.status()));
  }

 private:
  const int32_t size_;
  ChooserScratch scratch_;
  const TokenHistory history_;
};

SamplingOptions Sampled(double temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = 17;
  return options;
}

// Logits with ties, as quantised weights give them, and a few impossible tokens.
std::vector<float> RandomLogits(std::mt19937& random, size_t size) {
  std::normal_distribution<float> normal;
  const float grain = random() % 2 == 0 ? 0.5f : 0.001f;
  std::vector<float> logits(size);
  for (float& z : logits) {
    z = std::round(3 * normal(random) / grain) * grain;
    if (random() % 16 == 0) z = -kInfinity;
  }
  logits[random() % size] = 2;  // something is possible
  return logits;
}

TEST(Chooser, GreedyTakesTheLargestAndOfEqualOnesTheLowestId) {
  Bench bench(5);
  EXPECT_EQ(bench.Choose({}, {1, 3, 2, 3, -kInfinity}), 1);
  SamplingOptions options;
  options.top_k = 1;  // nothing but the temperature matters
  options.seed = 9;
  for (uint32_t position = 0; position < 100; ++position) {
    EXPECT_EQ(bench.Choose(options, {1, 3, 2, 3, 0}, position), 1);
  }
}

TEST(Chooser, ABrokenLogitIsAnErrorThatNamesTheToken) {
  Bench bench(4);
  for (const SamplingOptions& options : {SamplingOptions(), Sampled(1)}) {
    EXPECT_EQ(bench.ErrorOf(options, {0, NAN, 1, NAN}),
              "the logit of token 1 at position 12 is not a number: the model's weights or their "
              "arithmetic are broken; `outrider inspect --weights` on its file says which weights "
              "are");
    EXPECT_EQ(bench.ErrorOf(options, {0, 1, kInfinity, 2}),
              "the logit of token 2 at position 12 is plus infinity: the model's weights or their "
              "arithmetic are broken; `outrider inspect --weights` on its file says which weights "
              "are");
    EXPECT_EQ(bench.ErrorOf(options, std::vector<float>(4, -kInfinity)),
              "no token is possible at position 12: every logit is minus infinity, by the model or "
              "by logit_bias");
  }
}

// Penalties and bias must not hide it: infinity less infinity, infinity over something.
TEST(Chooser, ABrokenLogitIsAnErrorWhateverTheOptions) {
  Bench bench(3);
  SamplingOptions options = Sampled(1);
  options.repetition_penalty = 1.5;
  options.frequency_penalty = 1;
  options.logit_bias = {{1, -kInfinity}};
  const TokenHistory history = bench.HistoryOf({0}, {1, 2});
  for (const float bad : {NAN, kInfinity}) {
    for (size_t at = 0; at < 3; ++at) {
      std::vector<float> logits = {1, 2, 3};
      logits[at] = bad;
      EXPECT_FALSE(bench.Try(options, logits, 0, {history}).ok());
    }
  }
}

TEST(Chooser, ForbiddingEveryTokenIsAnError) {
  Bench bench(2);
  SamplingOptions options;
  options.logit_bias = {{0, -kInfinity}, {1, -kInfinity}};
  EXPECT_THAT(bench.ErrorOf(options, {1, 2}), ::testing::HasSubstr("no token is possible"));
}

TEST(Chooser, BadOptionsAreRefusedWhenItIsMade) {
  EXPECT_FALSE(Chooser::Create(Sampled(-1), 10).ok());
  EXPECT_TRUE(Chooser::Create(Sampled(1), 10).ok());
}

// All options at once, against the definition.
TEST(Chooser, DoesWhatItsDefinitionSays) {
  std::mt19937 random(1);
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + random() % values.size());
  };
  for (const size_t size : {1, 2, 31, 100, 300, 2500}) {
    Bench bench(size);
    for (int round = 0; round < (size < 1000 ? 1500 : 300); ++round) {
      SamplingOptions options = Sampled(one_of({1e-4, 0.5, 1, 1.3, 100}));
      options.top_k = static_cast<int32_t>(one_of({0, 0, 1, 2, 5, 40, 77, 1000}));
      options.top_p = one_of({0, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12, 1, 1});
      options.min_p = one_of({0, 0, 0.01, 0.3, 1});
      options.repetition_penalty = one_of({1, 1, 1.3, 0.7});
      options.presence_penalty = one_of({0, 0.5, -1});
      options.frequency_penalty = one_of({0, 0.25, -0.5});
      const auto any_token = [&] { return static_cast<TokenId>(random() % size); };
      if (round % 3 == 0)
        options.logit_bias = {{any_token(), static_cast<float>(one_of({-3, 2, -INFINITY}))}};
      std::vector<TokenId> prompt(random() % 20);
      std::vector<TokenId> reply(random() % 20);
      for (TokenId& token : prompt) token = any_token();
      for (TokenId& token : reply) token = any_token();
      const uint32_t position = static_cast<uint32_t>(random());
      const std::vector<float> logits = RandomLogits(random, size);
      const std::vector<float> adjusted = PlainlyAdjusted(logits, options, prompt, reply);
      if (*std::max_element(adjusted.begin(), adjusted.end()) == -kInfinity) continue;
      const TokenHistory history = bench.HistoryOf(prompt, reply);
      ASSERT_EQ(bench.Choose(options, logits, position, {history}),
                PlainChoice(adjusted, options, position))
          << "vocabulary " << size << ", round " << round;
    }
  }
}

// The first of them is the choice, and their scores are those of the definition but for a constant.
void ExpectRanked(const std::vector<Ranked>& ranked, const std::vector<PlainFinisher>& expected,
                  size_t count) {
  ASSERT_EQ(ranked.size(), std::min(count, expected.size()));
  for (size_t i = 0; i < ranked.size(); ++i) {
    ASSERT_EQ(ranked[i].token, expected[i].token) << "rank " << i;
    const double apart = expected[0].score - expected[i].score;
    ASSERT_NEAR(ranked[0].score - ranked[i].score, apart, 1e-5 * (1 + std::abs(apart)));
  }
}

TEST(Chooser, RanksInTheOrderOfTheRace) {
  std::mt19937 random(9);
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + random() % values.size());
  };
  std::vector<Ranked> ranked;
  for (const size_t size : {1, 2, 31, 100, 300, 2500}) {
    Bench bench(size);
    ChooserScratch scratch(static_cast<int32_t>(size));
    for (int round = 0; round < (size < 1000 ? 600 : 200); ++round) {
      SamplingOptions options = Sampled(one_of({0, 0.5, 1, 1.3, 100}));
      options.top_k = static_cast<int32_t>(one_of({0, 0, 1, 5, 40, 1000}));
      options.top_p = one_of({0.5, 0.9, 1, 1});
      options.min_p = one_of({0, 0, 0.01, 0.3});
      const size_t count = 1 + random() % 40;
      const auto position = static_cast<uint32_t>(random());
      const std::vector<float> logits = RandomLogits(random, size);
      const auto chooser = Chooser::Create(options, static_cast<int32_t>(size));
      const TokenHistory history = bench.HistoryOf({});
      ASSERT_TRUE(chooser->Rank(logits, position, {history}, count, scratch, ranked).ok());
      ExpectRanked(ranked, PlainRanking(logits, options, position), count);
      ASSERT_EQ(ranked[0].token, bench.Choose(options, logits, position));
    }
  }
}

// Of the history, the penalties and what is broken Rank() knows what Choose() does.
TEST(Chooser, RanksWhatItWouldChoose) {
  std::mt19937 random(10);
  Bench bench(50);
  ChooserScratch scratch(50);
  std::vector<Ranked> ranked;
  for (int round = 0; round < 2000; ++round) {
    SamplingOptions options = Sampled(round % 2);
    options.repetition_penalty = 1.5;
    options.frequency_penalty = 0.5;
    options.logit_bias = {{7, 1.5}};
    const TokenHistory history = bench.HistoryOf({1, 2}, {3, 4, 4});
    const std::vector<TokenId> ancestors = {5, 4};
    std::vector<float> logits = RandomLogits(random, 50);
    if (round % 100 == 0) logits[9] = NAN;
    const auto chooser = Chooser::Create(options, 50);
    const absl::Status status = chooser->Rank(logits, 6, {history, ancestors}, 3, scratch, ranked);
    const auto chosen = bench.Try(options, logits, 6, {history, ancestors});
    ASSERT_EQ(status, chosen.status());
    if (chosen.ok()) {
      ASSERT_EQ(ranked[0].token, *chosen);
    }
  }
}

// Who knows some tokens' logits ranks as if the others could not be, to the bit.
TEST(Chooser, RanksAmongSomeAsIfTheOthersCouldNotBe) {
  std::mt19937 random(11);
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + random() % values.size());
  };
  std::vector<Ranked> ranked;
  std::vector<Ranked> expected;
  for (const size_t size : {1, 40, 300}) {
    Bench bench(size);
    ChooserScratch scratch(static_cast<int32_t>(size));
    const std::vector<TokenId> ancestors =
        size > 5 ? std::vector<TokenId>{5, 4} : std::vector<TokenId>{};
    const TokenHistory history =
        size > 5 ? bench.HistoryOf({1, 2}, {3, 4, 4}) : bench.HistoryOf({0});
    for (int round = 0; round < 500; ++round) {
      SamplingOptions options = Sampled(one_of({0, 1e-4, 0.5, 1.3, 100}));
      options.top_k = static_cast<int32_t>(one_of({0, 0, 1, 5, 1000}));
      options.top_p = one_of({0.5, 0.9, 1, 1});
      options.min_p = one_of({0, 0, 0.3});
      options.repetition_penalty = one_of({1, 1.5});
      options.frequency_penalty = one_of({0, 0.5});
      if (random() % 2 == 0 && size > 7) options.logit_bias = {{3, 0.5f}, {7, 1.5f}};
      const std::vector<float> logits = RandomLogits(random, size);
      std::vector<float> masked(size, -INFINITY);
      std::vector<TokenId> tokens;
      std::vector<float> known;
      for (size_t i = 0; i < size; ++i) {
        if (random() % 3 == 0 && i > 0) continue;
        tokens.push_back(static_cast<TokenId>(i));
        known.push_back(masked[i] = logits[i]);
      }
      const auto chooser = Chooser::Create(options, static_cast<int32_t>(size));
      const size_t count = 1 + random() % 40;
      const absl::Status status =
          chooser->RankAmong(tokens, known, 6, {history, ancestors}, count, scratch, ranked);
      const absl::Status should =
          chooser->Rank(masked, 6, {history, ancestors}, count, scratch, expected);
      ASSERT_EQ(status.code(), should.code()) << status;
      if (!status.ok()) continue;
      ASSERT_EQ(ranked.size(), expected.size());
      for (size_t i = 0; i < ranked.size(); ++i) {
        ASSERT_EQ(ranked[i].token, expected[i].token);
        ASSERT_EQ(ranked[i].score, expected[i].score);
      }
    }
  }
}

TEST(Chooser, TopKKeepsExactlyThatManyEvenOfEqualTokens) {
  Bench bench(100);
  SamplingOptions options = Sampled(1);
  options.top_k = 3;
  std::vector<float> logits(100, 0.5);
  logits[70] = 1;
  std::vector<int> seen(100, 0);
  for (uint32_t position = 0; position < 1000; ++position) {
    ++seen[static_cast<size_t>(bench.Choose(options, logits, position))];
  }
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(seen[i] > 0, i == 0 || i == 1 || i == 70) << i;
}

TEST(Chooser, TopPKeepsTheFewestTokensThatHoldIt) {
  Bench bench(4);
  // Probabilities 1/2, 1/4, 1/8, 1/8, exact in binary: e^(log 2) is not, so a hair less is asked.
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {2 * ln2, 0, ln2, 0};
  const auto kept = [&](double top_p) {
    SamplingOptions options = Sampled(1);
    options.top_p = top_p;
    std::vector<bool> seen(4, false);
    for (uint32_t position = 0; position < 500; ++position) {
      seen[static_cast<size_t>(bench.Choose(options, logits, position))] = true;
    }
    return seen;
  };
  EXPECT_EQ(kept(0), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(kept(0.49), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(kept(0.51), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(kept(0.76), (std::vector<bool>{true, true, true, false}));  // the lower id of two
  EXPECT_EQ(kept(0.88), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(kept(1), (std::vector<bool>{true, true, true, true}));
}

TEST(Chooser, PresenceAndFrequencyLookAtTheReplyAndRepetitionAtThePromptToo) {
  Bench bench(3);
  const std::vector<float> logits = {1, 1.5, 0};
  SamplingOptions presence;
  presence.presence_penalty = 1;
  SamplingOptions frequency;
  frequency.frequency_penalty = 0.3;
  SamplingOptions repetition;
  repetition.repetition_penalty = 2;
  const TokenHistory in_prompt = bench.HistoryOf({1, 1}, {2});
  const TokenHistory in_reply = bench.HistoryOf({2}, {1, 1});
  const TokenHistory once_in_reply = bench.HistoryOf({2}, {1});
  EXPECT_EQ(bench.Choose(presence, logits, 3, {in_prompt}), 1);
  EXPECT_EQ(bench.Choose(presence, logits, 3, {once_in_reply}), 0);
  EXPECT_EQ(bench.Choose(frequency, logits, 3, {in_prompt}), 1);
  EXPECT_EQ(bench.Choose(frequency, logits, 3, {once_in_reply}), 1);
  EXPECT_EQ(bench.Choose(frequency, logits, 3, {in_reply}), 0);
  EXPECT_EQ(bench.Choose(repetition, logits, 3, {in_prompt}), 0);
  EXPECT_EQ(bench.Choose(repetition, logits, 3, {in_reply}), 0);
}

// A node of a sketch is judged by what it would see if its ancestors had been committed.
TEST(Chooser, PenaltiesOnANodesHistoryAreThoseOfACommittedCopy) {
  std::mt19937 random(2);
  Bench bench(12);
  int differ = 0;
  for (int round = 0; round < 3000; ++round) {
    SamplingOptions options = Sampled(round % 2 == 0 ? 0 : 1);
    options.repetition_penalty = 1.2;
    options.presence_penalty = 0.4;
    options.frequency_penalty = 0.2;
    std::vector<TokenId> prompt(random() % 4);
    std::vector<TokenId> reply(random() % 6);
    std::vector<TokenId> ancestors(random() % 6);
    for (auto* tokens : {&prompt, &reply, &ancestors}) {
      for (TokenId& token : *tokens) token = static_cast<TokenId>(random() % 12);
    }
    std::vector<float> logits(12);
    for (float& z : logits) z = static_cast<float>(random() % 2048) / 1024 - 1;
    const TokenHistory committed = bench.HistoryOf(prompt, reply);
    TokenHistory copy = bench.HistoryOf(prompt, reply);
    ASSERT_TRUE(copy.Append(ancestors).ok());
    const uint32_t position = static_cast<uint32_t>(copy.size());
    const TokenId chosen = bench.Choose(options, logits, position, {committed, ancestors});
    ASSERT_EQ(chosen, bench.Choose(options, logits, position, {copy})) << round;
    differ += chosen != bench.Choose(options, logits, position, {committed});
  }
  EXPECT_GT(differ, 300) << "or the ancestors were not asked";
}

TEST(Chooser, ABiasMovesATokenAndInfinityForbidsIt) {
  Bench bench(3);
  SamplingOptions options;
  options.logit_bias = {{2, 5}};
  EXPECT_EQ(bench.Choose(options, {3, 2, 1}), 2);
  options.logit_bias = {{0, -kInfinity}};
  EXPECT_EQ(bench.Choose(options, {3, 2, 1}), 1);
  options.temperature = 100;
  for (uint32_t position = 0; position < 200; ++position) {
    EXPECT_NE(bench.Choose(options, {3, 2, 1}, position), 0);
  }
}

TEST(Chooser, WhatWasChosenBeforeDoesNotMatter) {
  std::mt19937 random(4);
  Bench used(200);
  SamplingOptions options = Sampled(0.9);
  options.top_k = 20;
  options.frequency_penalty = 1;
  const std::vector<float> logits = RandomLogits(random, 200);
  const TokenHistory history = used.HistoryOf({}, {1, 2, 3});
  const std::vector<TokenId> ancestors = {4, 4, 1};
  const TokenId alone = Bench(200).Choose(options, logits, 50, {history, ancestors});
  for (int round = 0; round < 100; ++round) {
    SamplingOptions other = options;
    other.top_p = 0.5;
    used.Choose(other, RandomLogits(random, 200), random() % 100, {history, ancestors});
    used.Choose({}, RandomLogits(random, 200), random() % 100, {history});
    EXPECT_EQ(used.Choose(options, logits, 50, {history, ancestors}), alone);
  }
}

// 7 / 10 rounds down to the nearest float; rounded up it would beat its equal.
TEST(Chooser, TheProgramsRoundingDoesNotMatter) {
  Bench bench(2);
  SamplingOptions options;
  options.repetition_penalty = 10;
  const TokenHistory history = bench.HistoryOf({1});
  ASSERT_EQ(bench.Choose(options, {0.7f, 7}, 0, {history}), 0);
  std::fesetround(FE_UPWARD);
  const TokenId token = bench.Choose(options, {0.7f, 7}, 0, {history});
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(token, 0);
}

TEST(Chooser, AllocatesNothing) {
  constexpr int32_t kSize = 5000;
  std::mt19937 random(6);
  const std::vector<float> logits = RandomLogits(random, kSize);
  std::vector<SamplingOptions> all(1);  // greedy first
  for (const int32_t top_k : {0, 1, 40, 3000}) {
    for (const double top_p : {0.9, 1.0}) {
      SamplingOptions options = Sampled(1);
      options.top_k = top_k;
      options.top_p = top_p;
      options.repetition_penalty = top_k == 40 ? 1.1 : 1;
      options.logit_bias = {{3, 1}};
      all.push_back(options);
    }
  }
  const TokenHistory history = Bench(kSize).HistoryOf({1, 2, 3}, {4, 5});
  const std::vector<TokenId> ancestors = {4, 6};
  ChooserScratch scratch(kSize);
  std::vector<Ranked> ranked;
  for (SamplingOptions& options : all) {
    const absl::StatusOr<Chooser> chooser = Chooser::Create(std::move(options), kSize);
    ASSERT_TRUE(chooser.ok());
    bool chosen = chooser->Rank(logits, 0, {history}, 32, scratch, ranked).ok();  // warms up
    const uint64_t before = AllocationCount();
    for (uint32_t position = 0; position < 10; ++position) {
      chosen &= chooser->Choose(logits, position, {history, ancestors}, scratch).ok();
      chosen &= chooser->Rank(logits, position, {history, ancestors}, 32, scratch, ranked).ok();
    }
    EXPECT_EQ(AllocationCount(), before);
    EXPECT_TRUE(chosen);
  }
}

// The contract: these very tokens, on every machine, in every version with this numerics id.
TEST(Chooser, GivesTheSameTokensEverywhere) {
  constexpr int32_t kSize = 1000;
  uint64_t hash = 0xcbf29ce484222325;
  Bench bench(kSize);
  for (const double temperature : {0.0, 0.3, 0.8, 1.0, 2.0}) {
    for (const int32_t top_k : {0, 50}) {
      for (const double top_p : {0.9, 1.0}) {
        SamplingOptions options = Sampled(temperature);
        options.top_k = top_k;
        options.top_p = top_p;
        options.repetition_penalty = 1.1;
        options.frequency_penalty = 0.1;
        std::vector<TokenId> reply = {0};
        for (uint32_t position = 1; position < 50; ++position) {
          std::vector<float> logits(
              kSize);  // from integers, so that no library function takes part
          for (uint32_t i = 0; i < kSize; ++i) {
            const uint32_t word = Philox4x32({i, position, 0, 1}, {5, 6})[0];
            logits[i] = static_cast<float>(word >> 8) * 0x1p-20f;
          }
          const TokenHistory history = bench.HistoryOf({1, 2, 3}, reply);
          reply.push_back(bench.Choose(options, logits, position, {history}));
          hash = (hash ^ static_cast<uint32_t>(reply.back())) * 0x100000001b3;
        }
      }
    }
  }
  EXPECT_EQ(hash, 0x0f17fdf47bf519aeu);
}

}  // namespace
}  // namespace outrider
