// When a session's next pass begins, policy by policy.
#include "common/verification/machine/session_pace.h"

#include "gtest/gtest.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

struct Paced {
  explicit Paced(v1::DryPolicy policy, bool shares_processor = false)
      : pace(policy, shares_processor) {
    pace.RootKnown(*sequence, DryWait::PassTime{0.02, 0.02}, now);
  }

  void Grow(const v1::ClientMessage& message) {
    ASSERT_TRUE(sequence->Grow(message.grow()).ok());
    pace.Grown(message.grow(), *sequence, now);
  }
  SessionPace::Start Next() const { return pace.NextStart(*sequence); }
  bool StartsNow() const { return Next().at && *Next().at <= now; }

  MonotonicTime now{milliseconds(1000)};
  std::unique_ptr<VerifiedSequence> sequence =
      *VerifiedSequence::Create(OpenOf(1, "once").open(), ByteTokenizer(),
                                {.vocabulary_size = ByteTokenizer().vocabulary_size(),
                                 .context_length = 64,
                                 .pass_nodes_max = 7,
                                 .sketch_nodes_max = 16});
  SessionPace pace;
};

TEST(SessionPace, WhoWaitsBeginsWithGrowthOrWhenToldTo) {
  Paced paced(v1::DRY_POLICY_WAIT);
  EXPECT_FALSE(paced.Next().at.has_value());
  paced.Grow(GoOf(0));
  EXPECT_TRUE(paced.StartsNow());

  Paced grown(v1::DRY_POLICY_WAIT);
  grown.Grow(ChainOf(0, 1, Tokens("a")));
  EXPECT_TRUE(grown.StartsNow());
  EXPECT_EQ(grown.pace.last_growth(), grown.now);
}

TEST(SessionPace, WhoTakesTurnsBeginsWhenToldTo) {
  Paced paced(v1::DRY_POLICY_TURNS, /*shares_processor=*/true);
  EXPECT_FALSE(paced.Next().at.has_value());
  paced.Grow(ChainOf(0, 1, Tokens("a")));
  EXPECT_FALSE(paced.Next().at.has_value());
  paced.Grow(GoOf(0));
  EXPECT_TRUE(paced.StartsNow());
}

TEST(SessionPace, AnAdaptiveDryRootIsWaitedForAndThenTakesWhatNobodyWants) {
  Paced paced(v1::DRY_POLICY_ADAPTIVE);
  ASSERT_TRUE(paced.Next().at.has_value());
  EXPECT_FALSE(paced.StartsNow());
  EXPECT_TRUE(paced.Next().can_wait);
  paced.Grow(ChainOf(0, 1, Tokens("a")));
  EXPECT_TRUE(paced.StartsNow());
  EXPECT_FALSE(paced.Next().can_wait);
}

TEST(SessionPace, WhereDraftAndTargetShareAProcessorAdaptiveWaits) {
  Paced paced(v1::DRY_POLICY_ADAPTIVE, /*shares_processor=*/true);
  EXPECT_FALSE(paced.Next().at.has_value());
  paced.Grow(ChainOf(0, 1, Tokens("a")));
  EXPECT_TRUE(paced.StartsNow());
}

TEST(SessionPace, AloneDoesNotStandStill) {
  Paced paced(v1::DRY_POLICY_ALONE);
  EXPECT_TRUE(paced.StartsNow());
  EXPECT_FALSE(paced.Next().can_wait);
}

TEST(SessionPace, APolicyMayChange) {
  Paced paced(v1::DRY_POLICY_WAIT);
  paced.pace.Tune(v1::DRY_POLICY_ALONE);
  EXPECT_TRUE(paced.StartsNow());
  paced.pace.Tune(v1::DRY_POLICY_WAIT);
  EXPECT_FALSE(paced.Next().at.has_value());
}

}  // namespace
}  // namespace outrider
