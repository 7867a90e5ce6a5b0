#include "common/speculation/control/pass_size.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

// What a pass of so many rows takes.
using PassMs = std::function<double(double rows)>;

// 24, 28 and 45 ms of 1, 5 and 16 rows: a billion weights on two cores. And what a GPU makes of it.
double OnProcessor(double rows) {
  return rows <= 5 ? 24 + (rows - 1) : 28 + (rows - 5) * 17 / 11;
}
// And of weights on flash, which hide forty rows: the longer of reading and computing, from 60 ms.
constexpr double kReadMs = 400;
double OnFlash(double rows) {
  return std::max(kReadMs, 60 + 8.5 * rows);
}
double WaitOnFlash(double rows) {
  return OnFlash(rows) - (60 + 8.5 * rows);
}
double OnGpu(double rows) {
  return 20 + (rows - 1) * 8 / 63;
}

// And of tiles of 16 rows: beyond the first, rows are three times as dear.
double OnTiles(double rows) {
  return 20 + 0.75 * rows + 1.5 * std::max(0.0, rows - 16);
}

// A session whose draft is a chain: each token is right with the same chance once the one before it
// was. Every pass has all of it to choose from, and commits what is expected.
class ChainSession {
 public:
  ChainSession(double right, PassMs pass_ms) : right_(right), pass_ms_(std::move(pass_ms)) {}
  // After one that came to passes of so many nodes, of a price a row.
  ChainSession(double right, PassMs pass_ms, uint32_t nodes, double row_ms)
      : right_(right),
        pass_ms_(std::move(pass_ms)),
        size_({.shares_cores = true, .before = Findings{.pass_nodes = nodes}}) {
    draft_.costs = CostModel({.pass_node_ms = row_ms, .knows_rows = true});
  }

  ChainSession(double right, PassMs pass_ms, const ControlSetup& setup)
      : right_(right), pass_ms_(std::move(pass_ms)), size_(setup) {}

  // From now on nothing is drafted beside a pass, and of the chain no more than one has room for, in a batch
  // each; beside every token stands another that is hardly ever right.
  void TakeTurns(double draft_ms) {
    draft_ms_ = draft_ms;
    draft_.takes_turns = true;
  }

  // From now on passes say how long they have waited for flash.
  void Wait(PassMs waited_ms) { waited_ms_ = std::move(waited_ms); }

  // So many nodes, about as probable as each other, come when a pass has begun.
  void DraftTooLate(uint32_t count) { too_late_ = count; }

  void Run(int verdicts) {
    for (int i = 0; i < verdicts; ++i) {
      const double tokens = TokensOf(size_.nodes());
      const double ms = pass_ms_(1 + size_.nodes());
      draft_.costs.MeasuredPass({size_.nodes(), 1}, ms);
      const uint32_t rows = 1 + size_.nodes();
      if (waited_ms_) draft_.costs.MeasuredFlashWait(rows, waited_ms_(rows));
      // Counts are whole, and these come out right on average.
      owed_ += tokens;
      const auto committed = static_cast<uint32_t>(owed_);
      owed_ -= committed;
      const double drafting_ms = draft_ms_.value_or(0) * size_.nodes();
      if (draft_ms_) draft_.costs.MeasuredDraft(1, *draft_ms_);
      draft_.costs.MeasuredVerdict(committed, ms + drafting_ms);
      Draft(draft_ms_ ? size_.nodes() : 63);
      size_.Decided(draft_.View());
      tokens_ += tokens;
      ms_ += ms + drafting_ms;
    }
  }

  double TokensOf(uint32_t nodes) const {
    double tokens = 1;
    for (uint32_t k = 1; k <= nodes; ++k) tokens += std::pow(right_, k);
    return tokens;
  }
  double BestTokenMs() const {
    double best = pass_ms_(1);
    for (uint32_t n = 1; n <= 63; ++n) {
      best = std::min(best, (pass_ms_(1 + n) + draft_ms_.value_or(0) * n) / TokensOf(n));
    }
    return best;
  }
  // Over all that has been run.
  double TokenMs() const { return ms_ / tokens_; }
  uint32_t nodes() const { return size_.nodes(); }
  void Become(double right) { right_ = right; }
  void Become(PassMs pass_ms) { pass_ms_ = std::move(pass_ms); }
  void Forget() { tokens_ = ms_ = 0; }

 private:
  void Draft(uint32_t length) {
    draft_.nodes.resize(1);
    uint32_t last = 0;
    for (uint32_t k = 1; k <= length; ++k) {
      const uint32_t parent = last;
      last = draft_.Node(parent, 5, right_);
      if (draft_ms_) draft_.Node(parent, 6, 0.01);
      draft_.nodes[last].in_pass = k <= size_.nodes();
    }
    for (DraftNode& node : draft_.nodes) node.sent = node.at_target = true;
    last = 0;
    for (uint32_t i = 0; i < too_late_; ++i) last = draft_.Node(last, 7, i == 0 ? 0.25 : 0.99);
  }

  double right_;
  PassMs pass_ms_;
  PassMs waited_ms_;
  std::optional<double> draft_ms_;
  uint32_t too_late_ = 0;
  PassSize size_{ControlSetup{}};
  HandDraft draft_;
  double owed_ = 0;
  double tokens_ = 0;
  double ms_ = 0;
};

// A GPU in this process has one, as a server has.
TEST(PassSize, BeginsLargeWhereAPassHasAProcessorOfItsOwn) {
  const auto first = [](const ControlSetup& setup) { return PassSize(setup).nodes(); };
  EXPECT_EQ(first({}), 15u);
  EXPECT_EQ(first({.target_is_here = true}), 15u);
  EXPECT_EQ(first({.target_is_here = true, .shares_cores = true}), 3u);
}

TEST(PassSize, IsWithinAFewPercentOfTheBestSizeWhateverRowsCost) {
  for (const double right : {0.3, 0.5, 0.7, 0.85, 0.95}) {
    for (double (*const pass_ms)(double) : {OnProcessor, OnGpu, OnTiles}) {
      ChainSession session(right, pass_ms);
      session.Run(200);
      session.Forget();
      session.Run(400);
      EXPECT_LE(session.TokenMs(), 1.04 * session.BestTokenMs())
          << right << ", " << pass_ms(16) << " ms: " << session.nodes();
    }
  }
}

TEST(PassSize, IsNotMovedByWhatNoPassCouldHaveTaken) {
  ChainSession session(0.7, OnProcessor);
  session.DraftTooLate(30);
  session.Run(600);
  EXPECT_LT(session.nodes(), 10u);
}

// What a larger pass would have is not what was drafted besides, and nobody wanted, for one of this size. (A
// policy ends growth before that, too, where a batch costs more than it brings. This one does not.)
TEST(PassSize, IsWithinAFewPercentOfTheBestWhereDraftAndTargetTakeTurns) {
  for (const double right : {0.5, 0.7, 0.85, 0.95}) {
    for (double (*const pass_ms)(double) : {OnProcessor, OnGpu}) {
      for (const double draft_ms : {0.6, 3.0}) {
        ChainSession session(right, pass_ms, {.target_is_here = true, .shares_cores = true});
        session.TakeTurns(draft_ms);
        session.Run(200);
        session.Forget();
        session.Run(400);
        EXPECT_LE(session.TokenMs(), 1.07 * session.BestTokenMs())
            << right << (pass_ms == OnGpu ? " on a GPU, " : " here, ") << draft_ms << ": "
            << session.nodes();
      }
    }
  }
}

// From 15, which is not the best of any: what finding it costs is bounded.
TEST(PassSize, IsFoundWithinTheFirstHundredPasses) {
  for (const double right : {0.5, 0.7, 0.95}) {
    ChainSession session(right, OnProcessor);
    session.Run(100);
    EXPECT_LE(session.TokenMs(), 1.12 * session.BestTokenMs()) << right;
  }
}

TEST(PassSize, IsLargeWhereRowsAreFreeAndSmallWhereTheyAreDear) {
  ChainSession free(0.95, [](double) { return 20; });
  free.Run(200);
  EXPECT_GE(free.nodes(), 32u);
  ChainSession dear(0.95, [](double rows) { return 20 * rows; });
  dear.Run(200);
  EXPECT_LE(dear.nodes(), 8u);
}

// A busy hour has told that rows are dear, or free; passes of one size would never tell otherwise.
TEST(PassSize, IsNotMisledForLongByAPriceOfBefore) {
  ChainSession dear(0.7, OnProcessor, /*nodes=*/1, /*row_ms=*/30);
  dear.Run(40);
  EXPECT_GE(dear.nodes(), 3u);
  ChainSession free(
      0.5, [](double rows) { return 20 * rows; }, /*nodes=*/16, /*row_ms=*/0);
  free.Run(40);
  EXPECT_LE(free.nodes(), 4u);
}

TEST(PassSize, IsFoundAgainWhenRowsBecomeCheapAfterLong) {
  ChainSession session(0.95, [](double rows) { return 20 * rows; });
  session.Run(1000);
  EXPECT_LE(session.nodes(), 8u);
  session.Become(OnGpu);
  session.Run(100);
  EXPECT_GE(session.nodes(), 12u);
}

// What rows cost is told by how long passes wait, and none is made too large to find it out.
TEST(PassSize, GoesAsFarAsFlashHidesRows) {
  ChainSession session(
      0.95, OnFlash,
      ControlSetup{.shares_cores = true, .target_streams = true, .before = Findings{23}});
  session.Wait(WaitOnFlash);
  for (int i = 0; i < 30; ++i) {
    session.Run(1);
    EXPECT_GE(session.nodes(), 23u) << i;
    EXPECT_LE(session.nodes(), 31u) << i;
  }
  session.Run(200);
  EXPECT_EQ(session.nodes(), 31u);
}

// Rows that reads hide by far cost nothing, and none is left out.
TEST(PassSize, TakesAllNodesWhereFlashIsSlow) {
  const auto computed_ms = [](double rows) { return 60 + 8.5 * rows; };
  ChainSession session(
      0.99, [](double) { return 4000; },
      ControlSetup{.shares_cores = true, .target_streams = true, .before = Findings{23}});
  session.Wait([&](double rows) { return 4000 - computed_ms(rows); });
  session.Run(6);
  EXPECT_EQ(session.nodes(), 63u);
}

// And where a few are all that they hide, passes never have more by far.
TEST(PassSize, MakesNoPassTooLargeToAskWhatFlashHides) {
  const auto computed_ms = [](double rows) { return 60 + 18 * rows; };
  const auto pass_ms = [&](double rows) { return std::max(600.0, computed_ms(rows)); };
  ChainSession session(
      0.8, pass_ms,
      ControlSetup{.shares_cores = true, .target_streams = true, .before = Findings{23}});
  session.Wait([&](double rows) { return pass_ms(rows) - computed_ms(rows); });
  for (int i = 0; i < 30; ++i) {
    session.Run(1);
    EXPECT_LE(session.nodes(), 31u) << i;
  }
  EXPECT_LE(session.TokenMs(), 1.05 * session.BestTokenMs());
}

// A slow processor: computing is what passes take, from the second row on.
TEST(PassSize, ComesBackFromWhatFlashDoesNotHide) {
  const auto computed_ms = [](double rows) { return 100 + 60 * rows; };
  const auto pass_ms = [&](double rows) { return std::max(kReadMs, computed_ms(rows)); };
  ChainSession session(
      0.7, pass_ms,
      ControlSetup{.shares_cores = true, .target_streams = true, .before = Findings{23}});
  session.Wait([&](double rows) { return pass_ms(rows) - computed_ms(rows); });
  session.Run(40);
  EXPECT_LE(session.nodes(), 7u);
  session.Forget();
  session.Run(200);
  EXPECT_LE(session.TokenMs(), 1.1 * session.BestTokenMs());
}

TEST(PassSize, FollowsADraftAndATargetThatChange) {
  ChainSession session(0.95, OnProcessor);
  session.Run(200);
  EXPECT_GE(session.nodes(), 12u);
  session.Become(0.4);
  session.Run(200);
  EXPECT_LE(session.nodes(), 6u);
  session.Become(0.95);
  session.Become(OnGpu);
  session.Run(300);
  EXPECT_GE(session.nodes(), 24u);
}

}  // namespace
}  // namespace outrider
