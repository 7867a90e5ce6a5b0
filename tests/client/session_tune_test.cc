// How a session tells its verifier what its controller has chosen.
#include <string_view>
#include <utility>

#include "client/session/session.h"
#include "gtest/gtest.h"
#include "tests/client/session_script.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

// Changes its mind at the first verdict, and then no more.
class DecidedController final : public Controller {
 public:
  explicit DecidedController(TreePolicy& policy) : course_({.growth = &policy}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView&) override {
    course_.dry = Dry::kWait;
    course_.pass_nodes = 5;
    course_.hints = false;
  }

 private:
  Course course_;
};

TEST_F(ScriptTest, WhatTheControllerHasChosenIsSaidOnceToWhoeverAttaches) {
  DecidedController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  EXPECT_TRUE(up_.empty());
  const auto expect_told = [](const v1::ClientMessage& message) {
    ASSERT_TRUE(message.has_tune());
    EXPECT_EQ(message.tune().dry_policy(), v1::DRY_POLICY_WAIT);
    EXPECT_EQ(message.tune().pass_nodes(), 5u);
    EXPECT_TRUE(message.tune().has_hints());
    EXPECT_FALSE(message.tune().hints());
  };
  Down(VerdictMessage(0, "", 'd'));
  expect_told(TakeUp());
  Down(VerdictMessage(0, "", 'e'));
  EXPECT_TRUE(up_.empty());  // it knows
  Lose();
  AwaitRetry();
  ASSERT_TRUE(TakeUp().has_resume());
  Down(ResumedMessage(Committed(), Committed().size()));
  expect_told(TakeUp());
}

// What a server has that is new to the session, the session has not tuned.
TEST_F(ScriptTest, ASessionThatIsOpenedAnewIsToldAgain) {
  DecidedController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  Down(VerdictMessage(0, "", 'd'));
  EXPECT_TRUE(TakeUp().has_tune());
  Lose();
  AwaitRetry();
  ASSERT_TRUE(TakeUp().has_resume());
  Fault(v1::Fault::UNKNOWN_SESSION, "who is that");
  ASSERT_TRUE(TakeUp().has_open());
  Opened();
  EXPECT_EQ(TakeUp().tune().pass_nodes(), 5u);
}

// Lets the target write on alone from the first verdict on.
class LonelyController final : public Controller {
 public:
  explicit LonelyController(TreePolicy& policy) : course_({.growth = &policy}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView&) override { course_.dry = Dry::kAlone; }

 private:
  Course course_;
};

// Who takes turns with a target that waits drafts nothing while a pass runs.
TEST_F(ScriptTest, HintsAreWantedWhereSomethingIsDraftedBesideAPass) {
  for (const v1::DryPolicy dry :
       {v1::DRY_POLICY_ADAPTIVE, v1::DRY_POLICY_WAIT, v1::DRY_POLICY_ALONE}) {
    for (const bool takes_turns : {false, true}) {
      SessionOptions options;
      options.dry_policy = dry;
      options.sketch.takes_turns = takes_turns;
      Begin(options);
      EXPECT_EQ(TakeUp().open().hints(), !takes_turns || dry == v1::DRY_POLICY_ALONE)
          << v1::DryPolicy_Name(dry);
    }
  }
  LonelyController controller(eager_);
  controller_ = &controller;
  SessionOptions options;
  options.sketch.takes_turns = true;
  BeginAttached(options);
  Down(VerdictMessage(0, "", 'd'));
  EXPECT_FALSE(TakeUp().tune().hints());  // the first, which was being written all along
  const v1::ClientMessage told = TakeUp();
  EXPECT_EQ(told.tune().dry_policy(), v1::DRY_POLICY_ALONE);
  EXPECT_TRUE(told.tune().hints());
}

TEST_F(ScriptTest, ATargetInWhoseWaitsThingsAreDraftedBeginsWhenTold) {
  for (const bool in_waits : {false, true}) {
    SessionOptions options;
    options.dry_policy = v1::DRY_POLICY_WAIT;
    options.sketch.drafts_in_waits = in_waits;
    Begin(options);
    EXPECT_EQ(TakeUp().open().dry_policy(), in_waits ? v1::DRY_POLICY_TURNS : v1::DRY_POLICY_WAIT);
  }
}

// Another size of passes after every verdict.
class RestlessController final : public Controller {
 public:
  explicit RestlessController(TreePolicy& policy) : course_({.growth = &policy}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView&) override { course_.pass_nodes = 1 + course_.pass_nodes % 7; }

 private:
  Course course_;
};

TEST_F(ScriptTest, NoTuneWaitsHoweverManyVerdictsComeWhileTheLinkStalls) {
  RestlessController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  for (int i = 0; i < 40; ++i) Down(VerdictMessage(0, "", 'd'));
  Handle(Session::UserClose{});
  EXPECT_TRUE(TakeUp().has_tune());  // the first, which was being written all along
  EXPECT_TRUE(TakeUp().has_close());
}

// Whether the target waits changes after every verdict: growth does not say that.
class FickleController final : public Controller {
 public:
  explicit FickleController(TreePolicy& policy) : course_({.growth = &policy}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView&) override {
    course_.dry = course_.dry == Dry::kAlone ? Dry::kWait : Dry::kAlone;
  }

 private:
  Course course_;
};

TEST_F(ScriptTest, OneTuneWaitsHoweverManyVerdictsComeWhileTheLinkStalls) {
  FickleController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  for (int i = 0; i < 40; ++i) Down(VerdictMessage(0, "", 'd'));
  Handle(Session::UserClose{});
  EXPECT_TRUE(TakeUp().has_tune());  // the first, which was being written all along
  EXPECT_TRUE(TakeUp().has_tune());
  EXPECT_TRUE(TakeUp().has_close());
}

// Holds what is drafted back until it is told otherwise.
class HoldingPolicy final : public EagerPolicy {
 public:
  Sending Send(const DraftView&, bool) override { return holds ? Sending::kHold : Sending::kSend; }

  bool holds = true;
};

// It would have to wait for a message of its own.
TEST_F(ScriptTest, GrowthSaysInPassingHowManyNodesAPassIsToHave) {
  HoldingPolicy policy;
  RestlessController controller(policy);
  controller_ = &controller;
  BeginAttached();
  const auto grown = [&](NodeId leaf, std::string_view path, char next) {
    policy.holds = false;
    Down(VerdictMessage(leaf, path, next));
    policy.holds = true;
    const v1::Grow grow = TakeUp().grow();
    EXPECT_TRUE(up_.empty());
    EXPECT_EQ(grow.pass_nodes(), controller.course().pass_nodes);
    return NodesOf(grow.nodes()).size();
  };
  for (const char letter : {'x', 'y', 'z'}) Drafted(letter);
  EXPECT_TRUE(up_.empty());
  EXPECT_EQ(grown(0, "", 'x'), 2u);
  for (const char letter : {'u', 'v'}) Drafted(letter);
  EXPECT_EQ(grown(1, "y", 'z'), 2u);
  Lose();
  AwaitRetry();
  ASSERT_TRUE(TakeUp().has_resume());
  Down(ResumedMessage(Committed(), Committed().size()));
  EXPECT_EQ(TakeUp().tune().pass_nodes(), controller.course().pass_nodes);  // it may not have come
}

TEST_F(ScriptTest, WhatWasChosenWhileATuneWaitedIsToldAfterIt) {
  RestlessController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  for (int i = 0; i < 40; ++i) Down(VerdictMessage(0, "", 'd'));
  uint32_t told = 0;
  while (!up_.empty()) {
    const v1::ClientMessage message = TakeUp();
    if (message.has_tune()) told = message.tune().pass_nodes();
    if (message.grow().pass_nodes() > 0) told = message.grow().pass_nodes();
  }
  EXPECT_EQ(told, controller.course().pass_nodes);
}

// A server that says it has taken in every edit, so that its verdicts count and the controller
// changes its mind, and that reads nothing.
TEST_F(ScriptTest, EditsAndTunesThatNobodyTakesEndTheStreamBeforeTheirRoomDoes) {
  RestlessController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  const auto turn = Tokens("uv");
  uint32_t tuned = controller.course().pass_nodes;
  for (int i = 0; i < 40 && closed_ == 0; ++i) {
    v1::ServerMessage verdict = VerdictMessage(0, "", 'd');
    verdict.mutable_verdict()->set_edits(i == 0 ? 0 : 2);
    Down(verdict);
    EXPECT_NE(std::exchange(tuned, controller.course().pass_nodes), tuned) << i;
    Handle(Session::UserTruncate{2});
    Handle(Session::UserAppend{turn});
  }
  EXPECT_EQ(closed_, 1);
  EXPECT_TRUE(up_.back().has_resume());
}

// Leaves drafting to the server after every other verdict.
class LeavingController final : public Controller {
 public:
  explicit LeavingController(TreePolicy& policy) : course_({.growth = &policy}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView&) override {
    const bool leaves = course_.placement == Placement::kSplit;
    course_.placement = leaves ? Placement::kServer : Placement::kSplit;
  }

 private:
  Course course_;
};

TEST_F(ScriptTest, WhatTheServerDraftsIsToldByItsTokens) {
  policy_ = &eager_;
  LeavingController controller(eager_);
  controller_ = &controller;
  BeginAttached({}, /*drafts=*/true);
  SendChain("x");
  Down(VerdictMessage(0, "", 'd'));
  const v1::Tune left = TakeUp().tune();
  EXPECT_TRUE(left.has_draft() && left.draft());
  // Nothing goes up while the server drafts, and what had gone up may still be named.
  Drafted('y');
  EXPECT_TRUE(up_.empty());
  Down(PathMessage("efg", 'h'));
  EXPECT_EQ(Committed(), Tokens("abcdefgh"));
  EXPECT_EQ(session_->stats().nodes_accepted, 3u);
  const v1::Tune back = TakeUp().tune();
  EXPECT_TRUE(back.has_draft());
  EXPECT_FALSE(back.draft());
  // Ids go on where they were.
  const Grow more = SendChain("p");
  EXPECT_EQ(more.seen(), 2u);
  EXPECT_EQ(more.first_id(), 2u);
}

TEST_F(ScriptTest, AServerWithoutADraftIsAskedForNone) {
  LeavingController controller(eager_);
  controller_ = &controller;
  BeginAttached();
  Down(VerdictMessage(0, "", 'd'));
  EXPECT_TRUE(up_.empty());
}

TEST_F(ScriptTest, AFixedCourseTellsNothing) {
  BeginAttached();
  SendChain("xyz");
  Down(VerdictMessage(3, "xyz", 'd'));
  SendChain("xyz");
}

}  // namespace
}  // namespace outrider
