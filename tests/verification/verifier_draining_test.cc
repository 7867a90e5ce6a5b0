// The verifier machine, event by event: a server that is asked to stop.
#include "common/verification/machine/verifier_machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::Contains;
using ::testing::SizeIs;
using Kind = v1::ServerMessage::KindCase;
using Machine = VerifierMachine;
using StreamNumber = VerifierMachine::StreamNumber;
using std::chrono::seconds;

TEST(VerifierMachine, ADrainingServerLetsRepliesEndAndOpensNone) {
  VerifierWorld world;
  const StreamNumber idle = world.Connect();
  auto short_reply = OpenOf(1, "idle", v1::DRY_POLICY_ALONE);
  short_reply.mutable_open()->mutable_stops()->set_max_tokens(2);
  world.Send(idle, short_reply);
  world.Runs();
  const StreamNumber writing = world.Connect();
  auto longer_reply = OpenOf(2, "busy", v1::DRY_POLICY_ALONE);
  longer_reply.mutable_open()->mutable_stops()->set_max_tokens(5);
  world.Send(writing, longer_reply);
  world.Runs(2);
  world.Tell(Machine::Drain{world.clock().Now() + seconds(10)});
  EXPECT_EQ(FaultOf(world, idle).kind(), v1::Fault::DRAINING);  // nothing to wait for
  EXPECT_FALSE(world.line(writing).ended);
  EXPECT_THAT(KindsOf(world.line(writing).received), Contains(Kind::kDraining));
  const StreamNumber late = world.Connect();
  world.Send(late, OpenOf(3, "late"));
  EXPECT_EQ(FaultOf(world, late).kind(), v1::Fault::DRAINING);
  EXPECT_EQ(world.line(late).ended->code(), absl::StatusCode::kUnavailable);
  world.Runs();
  const auto verdicts = VerdictsOf(world.line(writing).received);
  ASSERT_THAT(verdicts, SizeIs(5));
  EXPECT_EQ(verdicts.back().finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(FaultOf(world, writing).kind(), v1::Fault::DRAINING);
  EXPECT_FALSE(world.drained());
  for (const StreamNumber stream : {idle, writing, late}) world.Close(stream);
  EXPECT_TRUE(world.drained());
  EXPECT_EQ(world.machine().session_count(), 0u);
}

TEST(VerifierMachine, ADrainEndsByItsDeadline) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  world.Tell(Machine::Drain{world.clock().Now() + seconds(10)});
  ASSERT_TRUE(world.timer().has_value());
  EXPECT_LE(*world.timer(), world.clock().Now() + seconds(10));
  world.Pass(seconds(9));
  EXPECT_FALSE(world.line(stream).ended);
  world.Pass(seconds(1));
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::DRAINING);
  world.Close(stream);
  world.Runs();
  EXPECT_TRUE(world.drained());
  const StreamNumber late = world.Connect();
  EXPECT_EQ(world.line(late).ended->code(), absl::StatusCode::kUnavailable);
}

TEST(VerifierMachine, AnEmptyServerIsDrainedAtOnce) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
  device.Attach();
  world.Runs();
  device.Break();
  world.Tell(Machine::Drain{world.clock().Now() + seconds(10)});
  world.Runs();
  EXPECT_TRUE(world.drained());
}

}  // namespace
}  // namespace outrider
