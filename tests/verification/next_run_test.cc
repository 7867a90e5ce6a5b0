// Which runs are pruned, what is learned of those that are, and what devices say of runs.
#include "common/verification/machine/next_run.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

class PrunedRuns : public testing::Test {
 protected:
  static constexpr double kRowMs = 3;

  // A pass over so many nodes, of which pruning spares `rows`; each takes kRowMs, all 10 ms more.
  static Pruning Run(NextRun& run, uint32_t node_count, Pruned pruned, MonotonicTime& now) {
    const std::vector<DraftedNode> nodes(node_count, {1, DraftedNode::kRoot});
    run.Consider({.session = 1, .wants_pass = true, .node_count = node_count});
    const std::span<const Scheduler::Share> shares = run.Choose(0);
    EXPECT_EQ(shares.size(), 1u);
    EXPECT_EQ(shares[0].node_count, node_count);
    const Pruning chosen = run.pruning();  // before the run is filled in
    TargetWork& work = run.Add(1);
    work.has_pass = true;
    work.nodes = nodes;
    TargetRun* const asked = run.Begin(now);
    work.pruned = asked->pruning == Pruning::kOff ? Pruned{} : pruned;
    double rows = 1 + node_count;
    if (asked->pruning == Pruning::kOn) {
      rows -= static_cast<double>(pruned.rows);
      work.pruned.lost_count = 0;
    }
    asked->pass_time = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double, std::milli>(10 + kRowMs * rows));
    asked->prompt_time = {};
    const Pruning pruning = asked->pruning;
    EXPECT_EQ(pruning, chosen);
    now += asked->pass_time;
    run.End();
    run.Committed(3);
    return pruning;
  }

  MonotonicTime now_{};
};

TEST_F(PrunedRuns, NothingIsTakenOutOfARoot) {
  NextRun run({}, PruningWay::kOn);
  run.OpenAccount(1, 1, 1);
  EXPECT_EQ(Run(run, 0, {}, now_), Pruning::kOff);
  EXPECT_EQ(Run(run, 9, {.node_count = 4, .rows = 2}, now_), Pruning::kOn);
  EXPECT_EQ(run.stats().pruned_runs, 1u);
  EXPECT_EQ(run.stats().nodes_pruned, 4u);
}

// Passes of two sizes tell what a row costs; six rows of 3 ms, of 40 to 50 a pass of three tokens.
TEST_F(PrunedRuns, AreThoseWhereRowsAreWorthMoreThanTokens) {
  for (const uint32_t lost : {0u, 3u}) {
    NextRun run({}, PruningWay::kAuto);
    run.OpenAccount(1, 1, 1);
    uint32_t watched = 0, pruned = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      const Pruned found = {.node_count = 9, .rows = 6, .lost_count = lost};
      const Pruning pruning = Run(run, i % 2 == 0 ? 10 : 14, found, now_);
      watched += pruning == Pruning::kWatch ? 1 : 0;
      pruned += pruning == Pruning::kOn ? 1 : 0;
      if (i < PruningWorth::kTrial) {
        ASSERT_EQ(pruning, Pruning::kWatch);
      }
    }
    EXPECT_GT(watched, PruningWorth::kTrial);
    EXPECT_EQ(pruned > 150, lost == 0) << lost << " lost a pass";
    EXPECT_EQ(run.stats().nodes_pruned, 9 * pruned);
  }
}

// A run with rows taken out of it took the time of the others.
TEST_F(PrunedRuns, DoNotMakeRowsLookCheap) {
  NextRun run({}, PruningWay::kOn);
  run.OpenAccount(1, 1, 1);
  for (uint32_t i = 0; i < 200; ++i) {
    const bool large = i % 2 == 0;
    Run(run, large ? 20 : 8, {.node_count = large ? 12u : 0u, .rows = large ? 9.0f : 0.0f}, now_);
  }
  ASSERT_TRUE(run.run_line().has_value());
  EXPECT_NEAR(run.run_line()->run_seconds, 0.010, 0.001);
  EXPECT_NEAR(run.run_line()->row_seconds, kRowMs / 1000, 0.0003);
}

// --- what nodes cost others ---

// A run of two passes, each of a root and so many nodes that are sure. Returns its rows, of which more than two take
// ten times as long.
uint32_t RunOfTwo(NextRun& run, uint16_t node_count, uint32_t at_work, MonotonicTime& now) {
  run.SetAtWork(at_work);
  for (const uint64_t session : {1, 2}) {
    run.Consider({.session = session,
                  .wants_pass = true,
                  .node_count = node_count,
                  .by_doubt = {node_count}});
  }
  const std::vector<DraftedNode> nodes(node_count, {1, DraftedNode::kRoot});
  uint32_t rows = 0;
  for (const Scheduler::Share& share : run.Choose(0)) {
    TargetWork& work = run.Add(run.CandidateOf(share).session);
    work.has_pass = true;
    work.nodes = std::span(nodes).first(share.node_count);
    rows += 1 + share.node_count;
  }
  TargetRun* const asked = run.Begin(now);
  asked->pass_time = std::chrono::milliseconds(rows > 2 ? 100 : 10);
  asked->prompt_time = {};
  now += asked->pass_time;
  run.End();
  run.Committed(2);
  return rows;
}

TEST(NodesOfARun, AreWeighedWhereOthersWaitForThem) {
  NextRun run({}, PruningWay::kOff);
  MonotonicTime now{};
  for (const uint64_t session : {1, 2}) run.OpenAccount(session, session, 1);
  EXPECT_EQ(RunOfTwo(run, 0, /*at_work=*/2, now), 2u);
  EXPECT_EQ(RunOfTwo(run, 8, 2, now), 18u) << "nobody knew";
  EXPECT_EQ(RunOfTwo(run, 8, 2, now), 2u);
  EXPECT_GT(run.least_chance(), 1);
  EXPECT_EQ(RunOfTwo(run, 8, 1, now), 18u) << "one who is alone chooses for himself";
}

// --- what the target's device says of runs ---

// One with a pass of a root, and what the device did for it.
void RunOn(std::optional<DeviceWork> work, NextRun& run, MonotonicTime& now) {
  run.Consider({.session = 1, .wants_pass = true, .node_count = 0});
  ASSERT_EQ(run.Choose(0).size(), 1u);
  run.Add(1).has_pass = true;
  TargetRun* const asked = run.Begin(now);
  asked->pass_time = std::chrono::milliseconds(5);
  asked->prompt_time = {};
  asked->device_work = work;
  now += asked->pass_time;
  run.End();
}

TEST(WorkOfADevice, IsAddedUpWhereThereIsAny) {
  NextRun run({}, PruningWay::kOff);
  MonotonicTime now{};
  run.OpenAccount(1, 1, 1);
  RunOn(std::nullopt, run, now);
  EXPECT_FALSE(run.stats().device.has_value());

  RunOn(DeviceWork{.time = std::chrono::milliseconds(4),
                   .exit_time = std::chrono::microseconds(100),
                   .exit_side_time = std::chrono::microseconds(300),
                   .graph_hits = 0,
                   .graph_misses = 6,
                   .graph_captures = 5},
        run, now);
  RunOn(DeviceWork{.time = std::chrono::milliseconds(3),
                   .exit_time = std::chrono::microseconds(50),
                   .exit_side_time = std::chrono::microseconds(200),
                   .graph_hits = 6,
                   .graph_misses = 0,
                   .graph_captures = 0},
        run, now);
  ASSERT_TRUE(run.stats().device.has_value());
  const DeviceStats& device = *run.stats().device;
  EXPECT_NEAR(device.run_time.sum(), 0.007, 1e-12);
  EXPECT_EQ(device.exit_time, std::chrono::microseconds(150));
  EXPECT_EQ(device.exit_side_time, std::chrono::microseconds(500));
  EXPECT_EQ(device.graph_hits, 6u);
  EXPECT_EQ(device.graph_misses, 6u);
  EXPECT_EQ(device.graph_captures, 5u);
}

}  // namespace
}  // namespace outrider
