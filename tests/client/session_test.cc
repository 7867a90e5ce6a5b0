// Laws of the session machine in random worlds, where only the seed decides what happens next.
#include "client/session/session.h"

#include <chrono>
#include <memory>

#include "common/base/status.h"
#include "common/speculation/control/controllers.h"
#include "common/verification/wire_padding.h"
#include "gtest/gtest.h"
#include "tests/client/session_world.h"

namespace outrider {
namespace {

constexpr uint32_t kContext = 160;

std::unique_ptr<Controller> ControllerOf(uint64_t seed) {
  return MakeController({.kind = kPolicyKinds[seed % kPolicyKinds.size()], .gamma = 3}, {});
}

SessionWorld::Options World(uint64_t seed) {
  SessionWorld::Options options;
  options.seed = seed;
  options.skill_percent = static_cast<uint32_t>(seed * 7 % 101);
  options.session.prompt = {'a', 'b', static_cast<TokenId>('a' + seed % 3)};
  options.session.length_max = kContext;
  options.session.sketch.node_count_max = 32;
  options.session.sketch.batch_count_max = 1 + seed % 3;
  options.session.continues_text = seed % 3 == 0;
  options.session.stops.max_tokens = 60;
  if (seed % 4 == 0) options.session.stops.strings = {"a ", "cdb"};
  if (seed % 5 == 0) options.session.stops = {};
  if (seed % 6 == 0) options.session.dry_policy = v1::DRY_POLICY_ALONE;
  // However long everything breaks, it does not give up.
  options.session.link.first_patience = options.session.link.patience = std::chrono::hours(24);
  options.limits = {.vocabulary_size = TheOracle().tokenizer().vocabulary_size(),
                    .context_length = kContext,
                    .pass_nodes_max = 8,
                    .sketch_nodes_max = static_cast<uint32_t>(seed % 7 == 0 ? 16 : 32)};
  return options;
}

void RunWorld(const SessionWorld::Options& options) {
  SCOPED_TRACE(Concat("seed ", options.seed));
  const auto controller = ControllerOf(options.seed);
  SessionWorld world(options, TheOracle(), *controller);
  world.Start();
  world.RunReply();
  if (::testing::Test::HasFailure()) return;
  ASSERT_FALSE(world.end()) << *world.end();
  ASSERT_EQ(world.shown(), world.expected().text);
}

TEST(SessionTest, WritesWhatTheTargetAloneWould) {
  for (uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) RunWorld(World(seed));
}

TEST(SessionTest, LosesAndRepeatsNothingWhateverBreaks) {
  for (uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    SessionWorld::Options options = World(seed);
    options.faults_percent = 1 + seed % 8;
    RunWorld(options);
  }
}

// Also what is sent anew after a fault: a whole sketch, which has room for more than a frame holds.
TEST(SessionTest, WithFramesAllThatGoesUpHasOneSize) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SessionWorld::Options options = World(seed);
    options.skill_percent = 100;
    options.faults_percent = 1 + seed % 4;
    options.session.frame_bytes = kReplyFrameBytes;
    options.session.sketch.node_count_max = options.limits.sketch_nodes_max = 512;
    RunWorld(options);
  }
}

TEST(SessionTest, ADrafterThatFailsCostsNoToken) {
  for (uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SessionWorld::Options options = World(seed);
    options.drafter_fails = true;
    RunWorld(options);
  }
}

// Turns follow one another, some replies are cut short, parts are forgotten, and all the while
// streams break: every reply is what the target alone writes after what then stands before it.
TEST(SessionTest, EveryTurnIsWhatTheTargetAloneWouldWrite) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(Concat("seed ", seed));
    SessionWorld::Options options = World(seed);
    options.session.stops.max_tokens = 12;
    options.faults_percent = seed % 3 == 0 ? 0 : seed % 6;
    const auto controller = ControllerOf(seed);
    SessionWorld world(options, TheOracle(), *controller);
    world.Start();
    for (int turn = 0; turn < 8 && !HasFailure(); ++turn) {
      for (uint64_t moves = seed % 40; moves > 0 && world.session().replying(); --moves)
        world.Move();
      if (turn % 3 == 0) world.Interrupt();
      world.RunReply();
      if (HasFailure()) return;
      ASSERT_FALSE(world.end()) << *world.end();
      if (turn % 3 != 2) world.Say();
      if (turn % 4 == 3) world.Interrupt();
    }
  }
}

}  // namespace
}  // namespace outrider
