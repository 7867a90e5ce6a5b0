#include "common/speculation/control/server_trial.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace outrider {
namespace {

// Texts whose verdicts come at a pace here and at another at the server.
class Text {
 public:
  Text(double here_ms, double there_ms, const ServerFindings& before = {})
      : here_ms_(here_ms), there_ms_(there_ms), trial_(before), at_server_(before.at_server) {}

  bool at_server() const { return at_server_; }
  ServerFindings findings() const { return trial_.findings(); }
  void TakeMs(double here, double there) { here_ms_ = here, there_ms_ = there; }
  void TakePassMs(double ms) { pass_ms_ = ms; }

  bool Decide(bool may_gain = true) {
    costs_.MeasuredPass({4, 4}, pass_ms_);
    const uint32_t tokens = varies_ ? std::binomial_distribution<uint32_t>(6, 0.4)(random_) + 1 : 3;
    costs_.MeasuredVerdict(tokens, at_server_ ? there_ms_ : here_ms_);
    return at_server_ = trial_.Decide(costs_, may_gain);
  }
  int AtServer(int verdicts) {
    int count = 0;
    for (int i = 0; i < verdicts; ++i) count += Decide();
    return count;
  }
  // How long it stays on the side where it is.
  uint32_t Stretch() {
    const bool side = at_server_;
    uint32_t verdicts = 1;
    while (Decide() == side) ++verdicts;
    return verdicts;
  }
  void Vary(uint32_t seed) { random_.seed(seed), varies_ = true; }

 private:
  double here_ms_;
  double there_ms_;
  double pass_ms_ = 50;
  CostModel costs_;
  ServerTrial trial_;
  bool at_server_;
  bool varies_ = false;
  std::mt19937 random_;
};

TEST(ServerTrial, BeginsAtTheServerAndThenLooksWhatThereIsHere) {
  Text text(100, 50);
  EXPECT_TRUE(text.at_server());
  // The first verdicts of a stretch are of what was asked for before it.
  text.AtServer(ServerTrial::kArrival);
  EXPECT_EQ(text.findings().there, Pace());
  text.AtServer(1);
  EXPECT_EQ(text.findings().there, (Pace{1, 3, 50}));
  EXPECT_EQ(text.Stretch(), ServerFindings::kFirst - ServerTrial::kArrival - 1);
  EXPECT_FALSE(text.at_server());
  EXPECT_TRUE(text.findings().tries);
}

TEST(ServerTrial, DoesNotWaitForADraftThatIsNoGain) {
  Text alone(100, 50 * 3);
  EXPECT_EQ(alone.Stretch(), ServerFindings::kFirst);
  Text later(100, 50 * 4);
  EXPECT_LT(later.Stretch(), 12u);
}

TEST(ServerTrial, StaysWhereTextComesSooner) {
  // Twice as soon, after a trial that is not gone through with; from one look at the other side to the next
  // it is longer.
  Text sooner(100, 50);
  sooner.Stretch();
  EXPECT_LT(sooner.Stretch(), ServerTrial::kTrial / 2);
  EXPECT_EQ(sooner.Stretch(), ServerFindings::kLongMin);
  EXPECT_LT(sooner.Stretch(), ServerTrial::kTrial / 2);
  EXPECT_EQ(sooner.Stretch(), 2 * ServerFindings::kLongMin);

  Text later(50, 100);
  later.Stretch();
  EXPECT_EQ(later.Stretch(),
            ServerTrial::kTrial + ServerFindings::kLongMin - ServerTrial::kArrival);
}

// What may be chance is looked at again soon, and what is next to nothing is no reason to go there.
TEST(ServerTrial, LooksAgainSoonWhereTheLeadIsSmall) {
  Text text(100, 90);
  text.Stretch();
  EXPECT_LE(text.Stretch(), ServerTrial::kTrial + ServerTrial::kSoon);
  Text alike(100, 99.5);
  alike.Stretch();
  EXPECT_EQ(alike.Stretch(), ServerTrial::kTrial + ServerTrial::kSoon - ServerTrial::kArrival);
  EXPECT_EQ(alike.Stretch(), ServerTrial::kTrial);
}

// How long a verdict takes tells more than how many tokens it happens to have.
TEST(ServerTrial, KnowsSoonWhereVerdictsComeSooner) {
  Text sooner(100, 77);
  sooner.Stretch();
  sooner.Stretch();
  EXPECT_EQ(sooner.Stretch(), ServerFindings::kLongMin);
}

TEST(ServerTrial, IsNotMisledByChanceForLong) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Text text(100, 75);
    text.Vary(seed);
    EXPECT_GT(text.AtServer(4000), 3000) << seed;
  }
}

TEST(ServerTrial, DoesNotAskWhatCannotGain) {
  Text text(50, 100);
  while (text.Decide()) continue;
  while (text.findings().tries) text.Decide();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(text.Decide(false));
  EXPECT_TRUE(text.Decide(true));
}

// A prompt's passes, and those that it has shared, are no measure of those that follow.
TEST(ServerTrial, IsNotMisledByTheFirstPassesOfAText) {
  ServerFindings found;
  for (int i = 0; i < 20; ++i) {
    Text text(100, 50, found);
    text.TakePassMs(150);
    text.AtServer(2);
    text.TakePassMs(50);
    text.AtServer(30);
    found = text.findings();
  }
  EXPECT_GT(found.there.verdicts, 200);
  EXPECT_GT(found.here.verdicts, 0);
}

TEST(ServerTrial, ForgetsWhatItKnewOfOtherPasses) {
  Text text(100, 50);
  text.AtServer(200);
  ASSERT_TRUE(text.at_server());
  text.TakePassMs(100);
  text.TakeMs(100, 150);
  int verdicts = 0;
  while (text.findings() != ServerFindings()) ++verdicts, text.Decide();
  EXPECT_LT(verdicts, 10);
  EXPECT_LT(text.AtServer(400), int{ServerFindings::kFirst});
}

// Cut anywhere, and gone on with in another text, it is the same but for the first verdicts of each.
TEST(ServerTrial, GoesOnInTheNextText) {
  Text whole(100, 50);
  ServerFindings found;
  for (int i = 0; i < 60; ++i) {
    Text part(100, 50, found);
    for (int verdict = 0; verdict < 20; ++verdict) EXPECT_EQ(part.Decide(), whole.Decide());
    found = part.findings();
  }
  EXPECT_EQ(found, whole.findings());
}

TEST(ServerTrial, KnowsWhatMakesNoSense) {
  EXPECT_TRUE(ServerFindings().MakesSense());
  Text text(100, 50);
  text.AtServer(3000);
  EXPECT_TRUE(text.findings().MakesSense());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<ServerFindings> impossible = {
      {.length = 0},          {.verdicts = 49},      {.length = 4000},     {.next_long = 1},
      {.next_long = 5000},    {.here = {nan, 1, 1}}, {.here = {1, -1, 1}}, {.here = {1, 1, nan}},
      {.there = {1e9, 1, 1}}, {.there = {1, 1e9, 1}}};
  for (const ServerFindings& found : impossible) EXPECT_FALSE(found.MakesSense());
}

}  // namespace
}  // namespace outrider
