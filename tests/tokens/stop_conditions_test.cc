#include "common/tokens/stop_conditions.h"

#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

class StopConditionsTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *std::move(tokenizer);
  }

  StopConditions Stops(StopOptions options) {
    absl::StatusOr<StopConditions> stops = StopConditions::Create(std::move(options), *tokenizer_);
    EXPECT_TRUE(stops.ok()) << stops.status();
    return *std::move(stops);
  }

  // One token a byte, so that every stop string crosses tokens.
  static std::vector<TokenId> Bytes(std::string_view text) {
    std::vector<TokenId> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  TokenId Id(std::string_view text) const { return IdOf(tokenizer_->spec(), text); }
  TokenId End() const { return *tokenizer_->spec().eos; }

  const std::unique_ptr<Tokenizer> tokenizer_ = Make(SmallByteLevel());
};

TEST_F(StopConditionsTest, TheEndTokenIsTheLastAndPrintsNothing) {
  const StopConditions stops = Stops({});
  Reply reply(stops);
  const Reply::Step step = reply.Take(std::vector<TokenId>{Id("hello"), End(), Id("hello")});
  EXPECT_EQ(step.taken, 2u);
  EXPECT_EQ(step.text, "hello");
  EXPECT_EQ(step.finish, FinishReason::kEndToken);
  EXPECT_EQ(reply.finish(), FinishReason::kEndToken);
  EXPECT_EQ(reply.token_count(), 2u);
}

TEST_F(StopConditionsTest, TheModelsOwnEndCanBeIgnoredAndOthersNamed) {
  const StopConditions stops =
      Stops({.at_end_of_generation = false, .end_tokens = {Id("ll"), Id("he")}});
  EXPECT_FALSE(stops.IsEndToken(End()));
  EXPECT_TRUE(stops.IsEndToken(Id("he")));
  Reply reply(stops);
  const Reply::Step step = reply.Take(std::vector<TokenId>{End(), 'a', Id("ll"), 'b'});
  EXPECT_EQ(step.taken, 3u);
  EXPECT_EQ(step.text, "a");
  EXPECT_EQ(step.finish, FinishReason::kEndToken);
}

TEST_F(StopConditionsTest, AStopStringIsFoundAcrossTokens) {
  const StopConditions stops = Stops({.strings = {"lo t"}});
  Reply reply(stops);
  Reply::Step step = reply.Take(std::vector<TokenId>{Id("hello")});
  EXPECT_EQ(step.text, "hel");
  EXPECT_EQ(step.finish, std::nullopt);
  step = reply.Take(std::vector<TokenId>{Id(" t"), 'h', 'e'});
  EXPECT_EQ(step.taken, 1u) << "nothing is committed past the stop";
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(step.finish, FinishReason::kStopString);
}

TEST_F(StopConditionsTest, AStopStringInsideATokenCutsItsText) {
  const StopConditions stops = Stops({.strings = {"el"}});
  Reply reply(stops);
  const Reply::Step step = reply.Take(std::vector<TokenId>{'x', Id("hello"), 'y'});
  EXPECT_EQ(step.taken, 2u);
  EXPECT_EQ(step.text, "xh");
}

TEST_F(StopConditionsTest, AStopStringIsFoundInCharactersSplitOverTokens) {
  const StopConditions stops = Stops({.strings = {"語é"}});
  Reply reply(stops);
  std::string shown;
  const std::vector<TokenId> tokens = Bytes("日語語éa");
  size_t taken = 0;
  while (!reply.finish()) {
    const Reply::Step step = reply.Take(std::vector<TokenId>{tokens[taken++]});
    shown += step.text;
  }
  EXPECT_EQ(shown, "日語");
  EXPECT_EQ(reply.finish(), FinishReason::kStopString);
  EXPECT_EQ(taken, tokens.size() - 1);
}

// However a pass groups the tokens, the reply is the same.
TEST_F(StopConditionsTest, ThePassesDoNotMatter) {
  const StopConditions stops = Stops({.strings = {"aabaaa"}, .max_tokens = 30});
  const std::vector<TokenId> tokens = Bytes("xaabaabaabaaaxx");
  for (size_t group = 1; group <= tokens.size(); ++group) {
    Reply reply(stops);
    std::string shown;
    size_t taken = 0;
    while (!reply.finish()) {
      const size_t count = std::min(group, tokens.size() - taken);
      const Reply::Step step = reply.Take(std::span(tokens).subspan(taken, count));
      shown += step.text;
      taken += step.taken;
    }
    EXPECT_EQ(shown, "xaabaab");
    EXPECT_EQ(taken, 13u);
    EXPECT_EQ(reply.finish(), FinishReason::kStopString);
  }
}

// Wherever it is cut, and however often, a reply goes on as one that never was longer: text that a
// stop string begins with and half a character lie across the cut.
TEST_F(StopConditionsTest, AReplyThatIsCutGoesOnAsIfItHadNeverBeenLonger) {
  const StopConditions stops = Stops({.strings = {"語語語é", "aabaaa"}, .max_tokens = 1500});
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> tokens;
    const std::vector<std::string> parts = {"語", "aab", "é", "語語", "aabaa", "x", "aaba"};
    while (tokens.size() < 1000) {
      for (const TokenId token : Bytes(parts[random() % parts.size()])) tokens.push_back(token);
      if (random() % 50 == 0) tokens.push_back(0xE8);  // broken
    }
    Reply cut(stops);
    size_t length = cut.Take(tokens).taken;
    for (int i = 0; i < 4; ++i) {
      length = random() % (length + 1);
      cut.Truncate(std::span(tokens).first(length));
      ASSERT_EQ(cut.token_count(), length);
      Reply plain(stops);
      plain.Take(std::span(tokens).first(length));
      ASSERT_EQ(cut.finish(), plain.finish());
      if (cut.finish()) continue;
      const std::vector<TokenId> rest = Bytes("語語éaabaaa");
      Reply cut_on = cut;
      const Reply::Step expected = plain.Take(rest);
      const Reply::Step found = cut_on.Take(rest);
      ASSERT_EQ(found.taken, expected.taken);
      ASSERT_EQ(found.text, expected.text);
      ASSERT_EQ(found.finish, expected.finish);
    }
  }
}

TEST_F(StopConditionsTest, TheTokenLimitShowsEverythingWithheld) {
  const StopConditions stops = Stops({.strings = {"hello world"}, .max_tokens = 3});
  Reply reply(stops);
  const Reply::Step step = reply.Take(std::vector<TokenId>{'x', Id("hello"), 0xE8, 'z'});
  EXPECT_EQ(step.taken, 3u);
  EXPECT_EQ(step.text, "xhello\uFFFD");  // half a character is a broken one now
  EXPECT_EQ(step.finish, FinishReason::kTokenLimit);
}

TEST_F(StopConditionsTest, AtTheLastTokenAStopStringOrEndTokenIsTheReason) {
  const StopConditions stops = Stops({.strings = {"b"}, .max_tokens = 2});
  Reply by_string(stops);
  EXPECT_EQ(by_string.Take(Bytes("ab")).finish, FinishReason::kStopString);
  Reply by_token(stops);
  EXPECT_EQ(by_token.Take(std::vector<TokenId>{'a', End()}).finish, FinishReason::kEndToken);
  Reply by_limit(stops);
  EXPECT_EQ(by_limit.Take(Bytes("ac")).finish, FinishReason::kTokenLimit);
}

TEST_F(StopConditionsTest, AStopStringThatSpellsASpecialTokenIsThatToken) {
  const StopConditions stops =
      Stops({.at_end_of_generation = false, .strings = {"<|end|>", "<tool>"}});
  EXPECT_TRUE(stops.IsEndToken(Id("<|end|>")));
  EXPECT_FALSE(stops.IsEndToken(Id("<tool>")));  // prints, so its text is found
  Reply reply(stops);
  const Reply::Step step = reply.Take(std::vector<TokenId>{'a', Id("<tool>"), 'b'});
  EXPECT_EQ(step.text, "a");
  EXPECT_EQ(step.finish, FinishReason::kStopString);
}

TEST_F(StopConditionsTest, AnAbandonedReplyShowsWhatItWithheld) {
  const StopConditions stops = Stops({.strings = {"abc"}});
  Reply reply(stops);
  EXPECT_EQ(reply.Take(Bytes("xab")).text, "x");
  EXPECT_EQ(reply.Abandon(), "ab");
  Reply ended(stops);
  ended.Take(Bytes("abc"));
  EXPECT_EQ(ended.Abandon(), "");
}

TEST_F(StopConditionsTest, AReplyMayGoOnFromOtherText) {
  const auto words = Make(SmallSentencePiece());
  const absl::StatusOr<StopConditions> stops = StopConditions::Create({}, *words);
  ASSERT_TRUE(stops.ok());
  const std::vector<TokenId> before = {IdOf(words->spec(), "<s>"), IdOf(words->spec(), "▁a")};
  const std::vector<TokenId> next = {IdOf(words->spec(), "▁abc")};
  EXPECT_EQ(Reply(*stops).Take(next).text, "abc");
  EXPECT_EQ(Reply(*stops, before).Take(next).text, " abc");
}

TEST_F(StopConditionsTest, BadOnesAreRefused) {
  const auto error_of = [&](StopOptions options) {
    const absl::Status status = StopConditions::Create(std::move(options), *tokenizer_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(status));
  };
  EXPECT_EQ(
      error_of({.end_tokens = {5, -1}}),
      Concat("end token -1 is outside the vocabulary of 0 to ", tokenizer_->vocabulary_size() - 1));
  EXPECT_THAT(error_of({.end_tokens = {tokenizer_->vocabulary_size()}}),
              ::testing::HasSubstr("is outside the vocabulary"));
  EXPECT_EQ(error_of({.max_tokens = 0}), "max_tokens is 0: ask for at least one token");
  EXPECT_THAT(error_of({.strings = {""}}), ::testing::HasSubstr("a stop string is empty"));
}

}  // namespace
}  // namespace outrider
