#include "common/speculation/control/auto_controller.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/speculation/control/controllers.h"
#include "common/speculation/drafting/sketcher.h"

namespace outrider {
namespace {

using Way = AutoController::Way;

// Where a target in this process computes: on the cores that draft, or on a GPU.
constexpr ControlSetup kOnSharedCores = {.target_is_here = true, .shares_cores = true};
constexpr ControlSetup kOnGpu = {.target_is_here = true};

// A session in which nothing varies.
class Session {
 public:
  struct Times {
    double round_trip_ms;
    double pass_ms;
    double row_ms = 0;
    double draft_ms = 1;
    uint32_t tokens_per_verdict = 3;
    double verdict_ms = 30;
  };

  explicit Session(const ControlSetup& setup = {}) : controller_(setup) {}

  const Course& course() const { return controller_.course(); }
  Way way() const { return controller_.way(); }
  Findings findings() const { return controller_.findings(); }
  void TellLeastChance(double chance) { costs_.SetLeastChance(chance); }
  void Hint(HintWorth worth) { controller_.Hinted(worth); }

  Way Decide(const Times& times, int verdicts = 1) {
    Way way = controller_.way();
    for (int i = 0; i < verdicts; ++i) {
      costs_.MeasuredRoundTrip(times.round_trip_ms);
      costs_.MeasuredDraft(1, times.draft_ms);
      const uint32_t fewer = passes_++ % 2 * 4;
      if (way == Way::kTargetAlone) {
        costs_.MeasuredPass({0, 0}, times.pass_ms - 8 * times.row_ms);
      } else {
        costs_.MeasuredPass({8 - fewer, 4}, times.pass_ms - fewer * times.row_ms);
      }
      costs_.MeasuredVerdict(times.tokens_per_verdict, times.verdict_ms);
      controller_.Decided(sketcher_.View({}));
      way = controller_.way();
    }
    return way;
  }

 private:
  uint32_t passes_ = 0;
  CostModel costs_;
  AutoController controller_;
  RestingPolicy resting_;
  Sketcher sketcher_{{}, resting_, costs_};
};

TEST(Controller, KnowsFromTheFirstVerdictWhetherToWaitForGrowth) {
  EXPECT_EQ(Session().Decide({.round_trip_ms = 60, .pass_ms = 100}), Way::kWait);
  EXPECT_EQ(Session().Decide({.round_trip_ms = 100, .pass_ms = 20}), Way::kGoOn);
}

TEST(Controller, WaitsForNoGrowthThatIsNotTaken) {
  Session session;
  const Session::Times times = {.round_trip_ms = 20, .pass_ms = 100};
  EXPECT_EQ(session.Decide(times), Way::kWait);
  session.TellLeastChance(1);
  EXPECT_EQ(session.Decide(times), Way::kGoOn);
  session.TellLeastChance(0.9);
  EXPECT_EQ(session.Decide(times), Way::kWait);
}

// Its passes take a hundred times what the draft does, and rows cost little from the first on.
TEST(Controller, AwaitsTheVerdictsOfATargetOnFlash) {
  const ControlSetup setup = {.target_is_here = true, .shares_cores = true, .target_streams = true};
  Session session(setup);
  EXPECT_EQ(session.way(), Way::kAwait);
  const Session::Times times = {.round_trip_ms = 0.1,
                                .pass_ms = 400,
                                .draft_ms = 0.5,
                                .tokens_per_verdict = 4,
                                .verdict_ms = 400};
  EXPECT_EQ(session.Decide(times), Way::kAwait);
  EXPECT_EQ(session.Decide(times, 40), Way::kAwait);
  const auto growth_of = [](const ControlSetup& where) {
    return MakeController({.kind = PolicyKind::kOurs}, where)->course().growth->name();
  };
  EXPECT_EQ(growth_of(setup), "awaited");
  EXPECT_EQ(growth_of(kOnSharedCores), "ours");
}

// Where little comes of a pass, or drafting takes next to nothing of it, or there is no way
// between; once it is known that rows cost little.
TEST(Controller, AwaitsVerdictsThatAreNextDoor) {
  constexpr int kUntilPriced = 12;
  const Session::Times next_door = {
      .round_trip_ms = 5, .pass_ms = 50, .draft_ms = 5, .tokens_per_verdict = 2};
  EXPECT_EQ(Session().Decide(next_door), Way::kWait);
  EXPECT_EQ(Session().Decide(next_door, kUntilPriced), Way::kAwait);
  Session::Times rich = next_door;
  rich.tokens_per_verdict = 5;
  EXPECT_EQ(Session().Decide(rich, kUntilPriced), Way::kWait);
  rich.tokens_per_verdict = 4;
  EXPECT_EQ(Session().Decide(rich, kUntilPriced), Way::kWait);
  rich.round_trip_ms = 1;
  EXPECT_EQ(Session().Decide(rich, kUntilPriced), Way::kAwait);
  rich.tokens_per_verdict = 5;
  EXPECT_EQ(Session().Decide(rich, kUntilPriced), Way::kWait);
  Session::Times far = next_door;
  far.round_trip_ms = 20;
  EXPECT_EQ(Session().Decide(far, kUntilPriced), Way::kWait);
}

// Growth answers a verdict after 35 ms, and a token takes 20: from further away a pass of 50 ms that was begun before
// it would be over soon enough.
TEST(Controller, WaitsNextDoorForGrowthThatTakesLessThanAPass) {
  constexpr int kUntilPriced = 12;
  Session::Times slow = {
      .round_trip_ms = 5, .pass_ms = 50, .draft_ms = 30, .tokens_per_verdict = 3, .verdict_ms = 60};
  EXPECT_EQ(Session().Decide(slow, kUntilPriced), Way::kAwait);
  Session::Times further = slow;
  further.round_trip_ms = 15;
  further.draft_ms = 20;
  EXPECT_EQ(Session().Decide(further, kUntilPriced), Way::kGoOn);
  slow.draft_ms = 40;
  EXPECT_EQ(Session().Decide(slow, kUntilPriced), Way::kGoOn);
}

// Not even where drafting takes longer than a pass: it would take as long still. A GPU goes on, in
// this process as at a server.
TEST(Controller, NeverHasATargetGoOnThatSharesCoresWithItsDraft) {
  const Session::Times slow_draft = {
      .round_trip_ms = 0.1, .pass_ms = 20, .draft_ms = 30, .tokens_per_verdict = 4};
  EXPECT_EQ(Session().Decide(slow_draft), Way::kGoOn);
  Session shared(kOnSharedCores);
  EXPECT_EQ(shared.Decide(slow_draft), Way::kWait);
  EXPECT_EQ(shared.course().dry, Dry::kWait);
  Session gpu(kOnGpu);
  EXPECT_EQ(gpu.Decide(slow_draft), Way::kGoOn);
  EXPECT_EQ(gpu.course().dry, Dry::kAlone);
  EXPECT_EQ(gpu.course().placement, Placement::kLocal);
}

// A tree that is grown in a verdict's light is better; but on shared cores none is grown in any
// other, and there is nothing to choose.
TEST(Controller, AwaitsTheVerdictsOfAGpuInThisProcess) {
  const Session::Times beside = {
      .round_trip_ms = 0.1, .pass_ms = 50, .draft_ms = 5, .tokens_per_verdict = 4};
  EXPECT_EQ(Session(kOnGpu).Decide(beside, 12), Way::kAwait);
  EXPECT_EQ(Session(kOnSharedCores).Decide(beside, 12), Way::kWait);
}

// A draft here that costs more than it brings: a token of it takes twice what one alone does.
TEST(Controller, SoonGivesUpADraftInThisProcessThatHalvesTheSpeed) {
  const Session::Times useless = {
      .round_trip_ms = 0.1, .pass_ms = 20, .tokens_per_verdict = 1, .verdict_ms = 40};
  Session::Times useful = useless;
  useful.tokens_per_verdict = 3;
  for (const ControlSetup& setup : {kOnSharedCores, kOnGpu}) {
    Session session(setup);
    session.Decide(useless, 50);
    EXPECT_EQ(session.course().placement, Placement::kTargetAlone);
    Session other(setup);
    other.Decide(useful, 2000);
    EXPECT_EQ(other.course().placement, Placement::kLocal);
  }
}

// Two tokens in 60 ms, beside passes of 5 and 9 rows that take 38 and 50: one row would take 26.
TEST(Controller, GivesUpADraftWhoseRowsCostMoreThanItBrings) {
  Session::Times dear = {
      .round_trip_ms = 0.1, .pass_ms = 50, .row_ms = 3, .tokens_per_verdict = 2, .verdict_ms = 60};
  Session session(kOnSharedCores);
  int alone = 0;
  for (int i = 0; i < 1000; ++i) alone += session.Decide(dear) == Way::kTargetAlone;
  EXPECT_GT(alone, 500);
  dear.verdict_ms = 44;
  Session other(kOnSharedCores);
  other.Decide(dear, 2000);
  EXPECT_EQ(other.course().placement, Placement::kLocal);
}

// 60 ms of growth, 100 of a pass: what a wait loses is what a token takes.
TEST(Controller, DoesNotWaitLongerThanATokenIsWorth) {
  Session::Times times = {.round_trip_ms = 60, .pass_ms = 100, .tokens_per_verdict = 2};
  times.verdict_ms = 60;
  EXPECT_EQ(Session().Decide(times), Way::kWait);
  times.verdict_ms = 100;
  EXPECT_EQ(Session().Decide(times), Way::kGoOn);
}

TEST(Controller, FollowsASuddenChangeWithinAFewVerdicts) {
  Session session;
  EXPECT_EQ(session.Decide({.round_trip_ms = 60, .pass_ms = 100}, 50), Way::kWait);
  EXPECT_EQ(session.Decide({.round_trip_ms = 180, .pass_ms = 100}, 6), Way::kGoOn);
  EXPECT_EQ(session.Decide({.round_trip_ms = 180, .pass_ms = 300}, 6), Way::kWait);
}

TEST(Controller, DoesNotWaverAtABorder) {
  Session session;
  Way before = session.Decide({.round_trip_ms = 90, .pass_ms = 100, .draft_ms = 0.01}, 10);
  for (int i = 0; i < 100; ++i) {
    const double ms = 90 + (i / 10 % 2 == 0 ? 3 : -3);  // and a token takes 10
    const Way way = session.Decide({.round_trip_ms = ms, .pass_ms = 100, .draft_ms = 0.01});
    EXPECT_EQ(way, before);
    before = way;
  }
}

// A token of drafting takes what one of the target alone does: 20 ms.
TEST(Controller, StopsDraftingThatGainsNothingAndTriesAgainLater) {
  const Session::Times useless = {
      .round_trip_ms = 300, .pass_ms = 20, .tokens_per_verdict = 1, .verdict_ms = 20};
  Session session;
  int alone = 0;
  int first_alone = -1;
  int last_drafting = -1;
  for (int i = 0; i < 2000; ++i) {
    if (session.Decide(useless) == Way::kTargetAlone) {
      ++alone;
      if (first_alone < 0) first_alone = i;
    } else {
      last_drafting = i;
    }
  }
  EXPECT_LT(first_alone, 300);
  EXPECT_GT(alone, 1000);
  EXPECT_GT(last_drafting, 1500);

  Session::Times useful = useless;
  useful.verdict_ms = 15;
  Session other;
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(other.Decide(useful), Way::kGoOn);
}

// A target that is never told to go on has no pass that nothing was drafted for.
TEST(Controller, GoesOnAloneWhereTimeIsWorthTheWork) {
  const auto way_at = [](Objective objective, double round_trip_ms) {
    Session session({.objective = objective});
    return session.Decide({.round_trip_ms = round_trip_ms, .pass_ms = 20}, 20);
  };
  EXPECT_EQ(way_at(Objective::kTime, 60), Way::kGoOn);
  EXPECT_EQ(way_at(Objective::kBalanced, 60), Way::kWait) << "3 tokens a pass, for 4 times a pass";
  EXPECT_EQ(way_at(Objective::kServer, 60), Way::kWait);
  EXPECT_EQ(way_at(Objective::kBalanced, 400), Way::kGoOn);
  EXPECT_EQ(way_at(Objective::kServer, 400), Way::kWait);
}

TEST(Controller, DraftsForAServersSakeOnlyWhatSparesItWork) {
  Session session({.server_drafts = true, .objective = Objective::kServer});
  const Session::Times useful = {
      .round_trip_ms = 400, .pass_ms = 20, .tokens_per_verdict = 2, .verdict_ms = 420};
  EXPECT_EQ(session.Decide(useful, 1000), Way::kWait) << "late, but half the passes";
  Session::Times useless = useful;
  useless.tokens_per_verdict = 1;
  int alone = 0;
  for (int i = 0; i < 1000; ++i) alone += session.Decide(useless) == Way::kTargetAlone;
  EXPECT_GT(alone, 800);
}

// Two tokens a pass, but passes of 5 and 9 rows that take 2.5 times what one row does.
TEST(Controller, DraftsNothingForAServersSakeWhoseRowsAreItsWork) {
  Session session({.objective = Objective::kServer});
  const Session::Times dear = {
      .round_trip_ms = 60, .pass_ms = 58, .row_ms = 5, .tokens_per_verdict = 2, .verdict_ms = 80};
  int alone = 0;
  for (int i = 0; i < 1000; ++i) alone += session.Decide(dear) == Way::kTargetAlone;
  EXPECT_GT(alone, 800);
}

// Of where tokens are drafted, nothing is chosen that a setup does not have.
TEST(Controller, ChoosesAPlacementThatThereIs) {
  const Session::Times useless = {
      .round_trip_ms = 300, .pass_ms = 20, .tokens_per_verdict = 1, .verdict_ms = 20};
  const auto placements = [&](const ControlSetup& setup) {
    Session session(setup);
    while (session.Decide(useless) == Way::kAtServer) continue;
    const Course drafting = session.course();
    EXPECT_EQ(drafting.growth->name(), "ours");
    while (session.Decide(useless) != Way::kTargetAlone) continue;
    const Course alone = session.course();
    EXPECT_EQ(alone.growth->name(), "resting");
    EXPECT_EQ(alone.dry, Dry::kAlone);
    return std::pair(drafting.placement, alone.placement);
  };
  EXPECT_EQ(placements({}), std::pair(Placement::kSplit, Placement::kTargetAlone));
  EXPECT_EQ(placements({.server_drafts = true}),
            std::pair(Placement::kSplit, Placement::kTargetAlone));
  for (const ControlSetup& here : {kOnSharedCores, kOnGpu}) {
    EXPECT_EQ(placements(here), std::pair(Placement::kLocal, Placement::kTargetAlone));
  }
}

// A session far away, whose server has a draft that brings a token in `server_ms`.
struct Far {
  Session session;
  double server_ms;

  explicit Far(double ms, std::optional<Findings> before = {})
      : session({.server_drafts = true, .before = before}), server_ms(ms) {}

  Way Decide() {
    const double token_ms = session.way() == Way::kAtServer ? server_ms : 30;
    return session.Decide({.round_trip_ms = 60, .pass_ms = 50, .verdict_ms = 3 * token_ms});
  }
  int VerdictsAtServer(int count) {
    int at_server = 0;
    for (int i = 0; i < count; ++i) at_server += Decide() == Way::kAtServer;
    return at_server;
  }
};

TEST(Controller, LeavesDraftingToAServerThatIsSooner) {
  Far far(20);
  int verdicts = 0;
  while (far.Decide() != Way::kAtServer) ++verdicts;
  EXPECT_LT(verdicts, 40);
  EXPECT_EQ(far.session.course().placement, Placement::kServer);
  EXPECT_EQ(far.session.course().growth->name(), "resting");
  const int elsewhere = 4000 - far.VerdictsAtServer(4000);
  EXPECT_GT(elsewhere, 0);  // looked again at what else there is
  EXPECT_LT(elsewhere, 400);
}

// Most texts are shorter than what it takes to know.
TEST(Controller, BeginsWhereTheTextBeforeEnded) {
  Findings found;
  int elsewhere = 0;
  for (int text = 0; text < 100; ++text) {
    Far far(20, found);
    EXPECT_EQ(far.session.way() == Way::kAtServer, found.server.at_server);
    elsewhere += 10 - far.VerdictsAtServer(10);
    found = far.session.findings();
  }
  EXPECT_GE(elsewhere, 15);
  EXPECT_LT(elsewhere, 100);
  ASSERT_TRUE(found.server.at_server);

  // What is not there any more, or not to be asked for, is nowhere to begin.
  const auto begins_at = [&](ControlSetup setup) {
    setup.before = found;
    return Session(setup).course().placement;
  };
  EXPECT_EQ(begins_at({.server_drafts = true}), Placement::kServer);
  EXPECT_EQ(begins_at({}), Placement::kSplit);
  EXPECT_EQ(begins_at({.server_drafts = true, .objective = Objective::kServer}), Placement::kSplit);
}

TEST(Controller, BeginsWithoutHintsThatWereOfNoUseBefore) {
  Session session(ControlSetup{.before = Findings{.hints = false}});
  EXPECT_FALSE(session.course().hints);
  for (uint32_t i = 0; i < HintValue::kRest; ++i) {
    session.Hint(HintWorth::kNone);
    session.Decide({.round_trip_ms = 60, .pass_ms = 100});
  }
  EXPECT_TRUE(session.course().hints);
}

// The first after a reconnection says nothing of how fast text comes.
TEST(Controller, AVerdictWithoutATimeIsNoReasonToGiveUp) {
  Session session;
  ASSERT_EQ(session.Decide({.round_trip_ms = 100, .pass_ms = 20}, 33), Way::kGoOn);
  EXPECT_EQ(session.Decide(
                {.round_trip_ms = 100, .pass_ms = 20, .tokens_per_verdict = 0, .verdict_ms = 0}),
            Way::kGoOn);
}

TEST(Controller, DoesNotStayAtAServerThatIsLater) {
  EXPECT_LE(Far(40).VerdictsAtServer(8000),
            int{ServerFindings::kFirst} + 6 * int{ServerTrial::kTrial});
  // Far behind it need not even be tried to the end.
  EXPECT_LT(Far(300).VerdictsAtServer(500), int{ServerTrial::kTrial} / 2);
}

TEST(Controller, AsksNothingMoreOfAServerWhosePassesFollowOneAnother) {
  Session session(ControlSetup{.server_drafts = true});
  const Session::Times times = {.round_trip_ms = 60, .pass_ms = 100, .verdict_ms = 105};
  while (session.Decide(times) == Way::kAtServer) continue;
  for (int i = 0; i < 1000; ++i) EXPECT_NE(session.Decide(times), Way::kAtServer);
}

TEST(Controller, APolicyThatSomebodyPickedLeavesOutHintsThatNameNothingNew) {
  CostModel costs;
  RestingPolicy resting;
  const Sketcher sketcher({}, resting, costs);
  const auto controller = MakeController({.kind = PolicyKind::kOurs}, {});
  for (uint32_t i = 0; i < HintValue::kTrial; ++i) {
    EXPECT_TRUE(controller->course().hints) << i;
    controller->Hinted(HintWorth::kIdle);
    controller->Decided(sketcher.View({}));
  }
  EXPECT_FALSE(controller->course().hints);
  const ControlSetup next = {.before = controller->findings()};
  EXPECT_FALSE(MakeController({.kind = PolicyKind::kOurs}, next)->course().hints);
}

TEST(Controller, LeavesOutHintsThatNameNothingNew) {
  Session session;
  const auto verdicts = [&](HintWorth worth, uint32_t count) {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; ++i) {
      session.Hint(worth);
      session.Decide({.round_trip_ms = 60, .pass_ms = 100});
      if (session.course().hints) ++wanted;
    }
    return wanted;
  };
  // As long as none comes nothing is known, and one in 64 is enough.
  EXPECT_EQ(verdicts(HintWorth::kNone, 1000), 1000u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(verdicts(HintWorth::kDrafted, 1), 1u);
    EXPECT_EQ(verdicts(HintWorth::kIdle, 63), 63u);
  }
  EXPECT_EQ(verdicts(HintWorth::kIdle, 2 * HintValue::kTrial), HintValue::kTrial - 1);
  // Tried again, and more and more rarely.
  EXPECT_LT(verdicts(HintWorth::kIdle, 10000), 8 * HintValue::kTrial);
  verdicts(HintWorth::kDrafted, 20000);
  EXPECT_EQ(verdicts(HintWorth::kDrafted, 1000), 1000u);
}

TEST(Controller, LeavesTheDryPolicyAsItWasOpenedUntilTheFirstVerdict) {
  Session session;
  EXPECT_EQ(session.course().dry, std::nullopt);
  session.Decide({.round_trip_ms = 60, .pass_ms = 100});
  EXPECT_EQ(session.course().dry, Dry::kWait);
}

TEST(Controller, ATargetThatGetsSlowerIsGivenADraftAtOnce) {
  Session session;
  Session::Times times = {
      .round_trip_ms = 300, .pass_ms = 20, .tokens_per_verdict = 1, .verdict_ms = 20};
  while (session.Decide(times) != Way::kTargetAlone) continue;
  times.pass_ms = times.verdict_ms = 60;
  EXPECT_EQ(session.Decide(times, 6), Way::kGoOn);
}

}  // namespace
}  // namespace outrider
