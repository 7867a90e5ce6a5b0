// The verifier machine, event by event: how long sessions live, and the room they take.
#include "common/verification/machine/verifier_machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using StreamNumber = VerifierMachine::StreamNumber;
using std::chrono::seconds;

// --- lives ---

TEST(VerifierMachine, ASessionWithoutAStreamLivesForATime) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  device.Break();
  world.Pass(seconds(119));
  EXPECT_EQ(world.machine().session_count(), 1u);
  device.Attach();
  device.Listen();
  EXPECT_TRUE(device.attached());
  world.Pass(seconds(1000));  // attached, it has all the time
  EXPECT_EQ(world.machine().session_count(), 0u + 1);
}

TEST(VerifierMachine, ASessionWithoutAStreamIsForgottenInTheEnd) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  device.Break();
  ASSERT_TRUE(world.timer().has_value());
  world.Pass(seconds(120));
  EXPECT_EQ(world.machine().session_count(), 0u);
  world.Runs();
  EXPECT_EQ(world.target().sequence_count(), 0u);
  const StreamNumber stream = world.Connect();
  world.Send(stream, ResumeOf(device));
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::UNKNOWN_SESSION);
}

TEST(VerifierMachine, AClosedSessionIsGone) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  ASSERT_NE(world.run(), nullptr);
  world.Send(stream, CloseOf());
  world.Runs();
  EXPECT_TRUE(world.line(stream).ended->ok());
  EXPECT_EQ(world.machine().session_count(), 0u);
  EXPECT_EQ(world.target().sequence_count(), 0u);
}

TEST(VerifierMachine, ASessionThatEndsWhileItIsInTheRunIsNotTouchedUntilThen) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  ASSERT_NE(world.run(), nullptr);
  world.Send(stream, ChainOf(7, 1, Tokens("a")));  // verdict 7 does not exist
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MALFORMED);
  EXPECT_EQ(world.machine().session_count(), 1u);
  world.Runs();
  EXPECT_EQ(world.machine().session_count(), 0u);
  EXPECT_EQ(world.target().sequence_count(), 0u);
}

// --- room ---

TEST(VerifierMachine, MemoryIsReservedOrTheSessionRefused) {
  VerifierConfig config = SmallConfig();
  config.page_count = 2 * 17;  // a whole context and a pass, twice
  VerifierWorld world(config);
  const StreamNumber first = OpenSession(world, 1, "one");
  OpenSession(world, 2, "two");
  const StreamNumber third = world.Connect();
  world.Send(third, OpenOf(3, "three"));
  const v1::Fault fault = FaultOf(world, third);
  EXPECT_EQ(fault.kind(), v1::Fault::OVERLOADED);
  EXPECT_EQ(fault.retry_ms(), 1000u);
  EXPECT_EQ(world.line(third).ended->code(), absl::StatusCode::kResourceExhausted);
  world.Send(first, CloseOf());
  const StreamNumber again = world.Connect();
  world.Send(again, OpenOf(3, "three"));
  EXPECT_FALSE(world.line(again).ended);
}

TEST(VerifierMachine, ShortSessionsNeedLessRoom) {
  VerifierConfig config = SmallConfig();
  config.page_count = 17;
  VerifierWorld world(config);
  for (uint64_t nonce = 1; nonce <= 6; ++nonce) {
    auto open = OpenOf(nonce, "one");
    open.mutable_open()->set_length_max(30);  // two pages, and one for a pass
    const StreamNumber stream = world.Connect();
    world.Send(stream, open);
    EXPECT_EQ(world.line(stream).ended.has_value(), nonce == 6) << nonce;
  }
}

TEST(VerifierMachine, SessionsOfAKeyAndInAllAreBounded) {
  VerifierConfig config = SmallConfig();
  config.session_count_max = 3;
  config.session_count_of_key_max = 2;
  VerifierWorld world(config);
  std::vector<bool> refused;
  for (uint64_t nonce = 1; nonce <= 5; ++nonce) {
    const StreamNumber stream = world.Connect(nonce <= 3 ? "a" : "b");
    world.Send(stream, OpenOf(nonce, "one"));
    refused.push_back(world.line(stream).ended.has_value());
  }
  EXPECT_THAT(refused, ElementsAre(false, false, true, false, true));
}

TEST(VerifierMachine, AnIdleSessionGivesItsMemoryUpAndReadsItsTokensAgain) {
  VerifierConfig config = SmallConfig();
  config.page_count = 17;  // one session
  VerifierWorld world(config);
  GrowingDevice idle(world, "key", OpenOf(1, "idle", v1::DRY_POLICY_ALONE));
  idle.Attach();
  world.Runs(5);
  idle.Listen();
  idle.Break();
  world.Runs();
  auto short_reply = OpenOf(2, "busy", v1::DRY_POLICY_ALONE);
  short_reply.mutable_open()->mutable_stops()->set_max_tokens(3);
  GrowingDevice busy(world, "key", short_reply);
  busy.Attach();
  world.Run();
  EXPECT_EQ(world.machine().stats().evictions, 1u);
  idle.Attach();  // comes back, and waits: the memory is in use
  idle.Listen();
  EXPECT_TRUE(idle.attached());
  busy.Listen();
  EXPECT_EQ(busy.finish(), v1::FINISH_NONE);
  // Who has waited comes before who is new.
  const StreamNumber third = world.Connect();
  world.Send(third, OpenOf(3, "three"));
  EXPECT_EQ(FaultOf(world, third).kind(), v1::Fault::OVERLOADED);
  world.Runs(12);  // busy ends its reply and gives way
  busy.Listen();
  idle.Listen();
  EXPECT_EQ(busy.text(), TextAfter("busy", 3));
  EXPECT_EQ(world.machine().stats().evictions, 2u);
  EXPECT_GT(idle.committed().size(), 4u + 7);
  EXPECT_EQ(idle.text(), TextAfter("idle", idle.committed().size() - 4));
}

}  // namespace
}  // namespace outrider
