#include "bench/simulator/sources/trace.h"

#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTrace =
    "outrider-trace 1\n"
    "# three tokens of a reply\n"
    "vocabulary 100\n"
    "prompt 1 2\n"
    "exits 0.5\n"
    "place 30 draft 30:0.8 31:0.1 exits 30:0.5\n"
    "place 40 draft 41:0.6 40:0.2 exits 40:0.25   # the draft's second is right\n"
    "\n"
    "place 50 exits 9:0.75\n";

Trace Recorded() {
  absl::StatusOr<Trace> trace = Trace::Parse(kTrace, "test");
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

std::vector<TokenId> Tokens(const std::vector<Guess>& guesses) {
  std::vector<TokenId> tokens;
  for (const Guess& guess : guesses) tokens.push_back(guess.token);
  return tokens;
}

class Traced : public ::testing::Test {
 protected:
  // A place after the prompt and these tokens.
  Place After(const std::vector<TokenId>& tokens) {
    EXPECT_TRUE(history_.Truncate(0).ok());
    EXPECT_TRUE(history_.Append(trace_.prompt()).ok());
    EXPECT_TRUE(history_.Append(tokens).ok());
    return RootOf(history_);
  }

  const Trace trace_ = Recorded();
  const TracedText text_{trace_};
  const Chooser chooser_ = *Chooser::Create({}, 100);
  const TracedDrafts drafts_{trace_, text_, chooser_};
  const TracedExits exits_{trace_};
  TokenHistory history_{{.vocabulary_size = 100, .capacity = 100}};
  std::vector<Guess> guesses_;
};

TEST_F(Traced, OnThePathEverythingIsAsRecorded) {
  EXPECT_EQ(text_.After(After({}), chooser_), 30);
  EXPECT_EQ(text_.After(After({30}), chooser_), 40);
  EXPECT_EQ(text_.After(After({30, 40}), chooser_), 50);
  drafts_.Propose(After({}), 8, guesses_);
  EXPECT_THAT(Tokens(guesses_), ElementsAre(30, 31));
  EXPECT_EQ(guesses_[0].probability, 0.8);
  drafts_.Propose(After({30}), 1, guesses_);
  EXPECT_THAT(Tokens(guesses_), ElementsAre(41));
  drafts_.Propose(After({30, 40}), 8, guesses_);
  EXPECT_TRUE(guesses_.empty());
}

TEST_F(Traced, AnExitWalksDownByItsOwnChoices) {
  const std::vector<DraftedNode> nodes = {{30, DraftedNode::kRoot}, {40, 0}, {41, 0}};
  const Exits::Hint hint = exits_.Guess(0, After({}), nodes, {0, 1});
  EXPECT_EQ(hint.outcome.node, 1u);
  EXPECT_EQ(hint.outcome.next, 9);
  EXPECT_DOUBLE_EQ(hint.probability, 0.5 * 0.25 * 0.75);
}

// As sure as at places of the path, so that it does not give itself away.
TEST_F(Traced, BesideThePathAnExitIsAsSureAsOnIt) {
  const std::vector<DraftedNode> nodes = {{9, DraftedNode::kRoot}};
  const Exits::Hint hint = exits_.Guess(0, After({30, 40}), nodes, {DraftedNode::kRoot, 50});
  EXPECT_EQ(hint.outcome.node, 0u);
  EXPECT_GT(hint.probability, 0.75 * 0.2);
  EXPECT_LT(hint.probability, 0.75 * 0.8);
}

TEST(Trace, AnExitsSoftmaxIsThatOfWhereItsWalkEnds) {
  const Trace trace = *Trace::Parse(
      "outrider-trace 1\nvocabulary 10\nprompt 1\nexits 0.5\n"
      "place 3 exits 3:0.5:0.9\nplace 4 exits 4:0.5:0.625\n",
      "t");
  TokenHistory history({.vocabulary_size = 10, .capacity = 10});
  ASSERT_TRUE(history.Append(trace.prompt()).ok());
  const std::vector<DraftedNode> nodes = {{3, DraftedNode::kRoot}};
  const Exits::Hint hint = TracedExits(trace).Guess(0, RootOf(history), nodes, {0, 4});
  EXPECT_DOUBLE_EQ(hint.probability, 0.25);
  EXPECT_DOUBLE_EQ(hint.largest_softmax, 0.625);
}

// Beside the path, at any length: right as often as somewhere on it, here in 1 of 3 at rank 0 and 1
// of 3 at rank 1.
TEST_F(Traced, BesideThePathTheDraftIsAsGoodAsOnIt) {
  int first = 0;
  int second = 0;
  constexpr int kPlaces = 3000;
  for (int i = 0; i < kPlaces; ++i) {
    const Place place = i % 2 ? After({7, i % 100, i / 100}) : After({i / 100, i % 100});
    const TokenId truth = text_.After(place, chooser_);
    drafts_.Propose(place, 8, guesses_);
    first += !guesses_.empty() && guesses_[0].token == truth;
    second += guesses_.size() > 1 && guesses_[1].token == truth;
  }
  EXPECT_NEAR(first, kPlaces / 3, 104);  // four standard errors
  EXPECT_NEAR(second, kPlaces / 3, 104);
}

TEST(Trace, TellsHowOftenEachRankIsRight) {
  const Trace trace = Recorded();
  EXPECT_EQ(trace.place_count(), 3u);
  EXPECT_THAT(trace.RightByRank(), ElementsAre(1.0 / 3, 1.0 / 3));
}

TEST(Trace, ErrorsNameTheLine) {
  const auto why = [](const std::string& text) {
    const absl::StatusOr<Trace> trace = Trace::Parse(text, "t");
    EXPECT_FALSE(trace.ok()) << text;
    return std::string(Message(trace.status()));
  };
  const std::string head = "outrider-trace 1\nvocabulary 10\nprompt 1\n";
  EXPECT_THAT(why("outrider-trace 2\n"), HasSubstr("t:1: "));
  EXPECT_THAT(why("outrider-trace 1\nprompt 1\n"), HasSubstr("t:2: "));
  EXPECT_THAT(why("outrider-trace 1\nvocabulary 1.5\n"), HasSubstr("t:2: "));
  EXPECT_THAT(why(head + "place 10\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "place\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "place 1 2:0.5\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "place 1 draft 2\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "place 1 draft 2:1.5\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "place 1 draft 2:0.1 3:0.2\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "exits 0.5\nplace 1\n"), HasSubstr("t:5: "));
  EXPECT_THAT(why(head + "exits 0.5 0.5\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head + "exits 0.5\nplace 1 exits 1:0.5:1.5\n"), HasSubstr("t:5: "));
  EXPECT_THAT(why(head + "verse 1\n"), HasSubstr("t:4: "));
  EXPECT_THAT(why(head), HasSubstr("no places"));
  EXPECT_THAT(why("outrider-trace 1\nvocabulary 10\nplace 1\n"), HasSubstr("no prompt"));
}

TEST(Trace, AFileThatIsNotThereIsNamed) {
  const absl::StatusOr<Trace> trace = Trace::Read("/nowhere/trace.txt");
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(trace.status())), HasSubstr("/nowhere/trace.txt"));
}

}  // namespace
}  // namespace outrider
