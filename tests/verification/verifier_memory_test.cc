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
  config.page_groups = {{.page_count = 2 * kPagesOfOne}};  // a whole context and a pass, twice
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
  config.page_groups = {{.page_count = 17}};
  VerifierWorld world(config);
  for (uint64_t nonce = 1; nonce <= 6; ++nonce) {
    auto open = OpenOf(nonce, "one");
    open.mutable_open()->set_length_max(60);  // two pages, and one for a pass
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
  config.page_groups = {{.page_count = kPagesOfOne}};  // one session
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

TEST(VerifierMachine, ASessionThatWaitsForItsDeviceGivesWayAfterAWhile) {
  VerifierConfig config = SmallConfig();
  config.page_groups = {{.page_count = kPagesOfOne}};  // one session
  VerifierWorld world(config);
  GrowingDevice waiting(world, "key", OpenOf(1, "waiting", v1::DRY_POLICY_WAIT));
  waiting.Attach();
  world.Runs();
  waiting.Listen();
  ASSERT_TRUE(waiting.attached());
  auto short_reply = OpenOf(2, "busy", v1::DRY_POLICY_ALONE);
  short_reply.mutable_open()->mutable_stops()->set_max_tokens(3);
  world.Pass(seconds(4));
  const StreamNumber soon = world.Connect();
  world.Send(soon, short_reply);
  EXPECT_EQ(FaultOf(world, soon).kind(), v1::Fault::OVERLOADED);
  world.Pass(seconds(2));
  GrowingDevice busy(world, "key", short_reply);
  busy.Attach();
  EXPECT_EQ(world.machine().stats().evictions, 1u);
  world.Send(waiting.stream(), ChainOf(0, 1, Tokens("abc")));
  world.Runs();
  busy.Listen();
  waiting.Listen();
  EXPECT_EQ(busy.text(), TextAfter("busy", 3));
  EXPECT_EQ(world.machine().stats().evictions, 2u);  // busy has nothing to write any more
  EXPECT_EQ(waiting.text(), TextAfter("waiting", waiting.committed().size() - 7));
  EXPECT_GT(waiting.committed().size(), 7u);
}

// --- beginnings that are shared ---

// 3 pages and a token that all begin with, and what is one's own.
std::string LongPrompt(std::string_view own) {
  std::string text;
  while (text.size() < 3 * kPageTokens + 1) text += "as all of them begin, ";
  return text.substr(0, 3 * kPageTokens + 1) + std::string(own);
}

v1::ClientMessage OpenLong(uint64_t nonce, std::string_view own, uint32_t length_max = 0) {
  auto open = OpenOf(nonce, LongPrompt(own), v1::DRY_POLICY_ALONE);
  open.mutable_open()->mutable_stops()->set_max_tokens(20);
  if (length_max > 0) open.mutable_open()->set_length_max(length_max);
  return open;
}

// Writes to its end.
void ExpectText(VerifierWorld& world, GrowingDevice& device, const std::string& prompt) {
  world.Runs();
  device.Listen();
  EXPECT_NE(device.finish(), v1::FINISH_NONE);
  EXPECT_EQ(device.text(), TextAfter(prompt, 20));
}

TEST(VerifierMachine, WhatSessionsOfAKeyBeginWithIsReadOnce) {
  VerifierWorld world;
  GrowingDevice first(world, "key", OpenLong(1, "mine"));
  first.Attach();
  ExpectText(world, first, LongPrompt("mine"));
  GrowingDevice second(world, "key", OpenLong(2, "yours"));
  second.Attach();
  ExpectText(world, second, LongPrompt("yours"));
  EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1);
  EXPECT_EQ(world.machine().stats().running.prompt_tokens, 3 * kPageTokens + 1 + 4 + 5);
  GrowingDevice stranger(world, "other", OpenLong(3, "theirs"));
  stranger.Attach();
  ExpectText(world, stranger, LongPrompt("theirs"));
  EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1) << "of another key";
}

TEST(VerifierMachine, WhatASessionLeavesIsThereForTheNextOneOfItsKey) {
  VerifierConfig config = SmallConfig();
  config.page_groups = {{.page_count = 2 * kPagesOfOne}};  // two sessions
  VerifierWorld world(config);
  const auto write_and_close = [&](uint64_t nonce, const std::string& key) {
    GrowingDevice device(world, key, OpenLong(nonce, key));
    device.Attach();
    ExpectText(world, device, LongPrompt(key));
    device.Say(CloseOf());
    world.Runs();
    EXPECT_EQ(world.machine().session_count(), 0u);
    return world.machine().stats().shared_tokens;
  };
  constexpr uint64_t kShared = 3 * kPageTokens + 1;
  EXPECT_EQ(write_and_close(1, "key"), 0u);
  EXPECT_EQ(write_and_close(2, "key"), kShared);
  EXPECT_EQ(write_and_close(3, "key"), 2 * kShared) << "it takes over what would be in its way";
  EXPECT_EQ(write_and_close(4, "other"), 2 * kShared) << "of another key";
  EXPECT_EQ(write_and_close(5, "other"), 3 * kShared);
  world.Pass(std::chrono::minutes(11));
  world.Connect();
  world.Runs();
  EXPECT_EQ(world.target().sequence_count(), 0u) << "it is not kept for ever";
  EXPECT_EQ(write_and_close(6, "other"), 3 * kShared);
}

TEST(VerifierMachine, SharedBeginningsLeaveRoomForMore) {
  VerifierConfig config = SmallConfig();
  config.page_groups = {{.page_count = 6 + 3 + 3}};  // 5 pages and one of nodes; 3 of the 5 shared
  VerifierWorld world(config);
  std::vector<std::unique_ptr<GrowingDevice>> devices;
  for (uint64_t i = 1; i <= 4; ++i) {
    devices.push_back(std::make_unique<GrowingDevice>(
        world, "key", OpenLong(i, std::to_string(i), 5 * kPageTokens)));
    devices.back()->Attach();
    world.Runs(3);
    devices.back()->Listen();
    EXPECT_EQ(devices.back()->attached(), i <= 3) << i;
  }
  devices.pop_back();
  for (size_t i = 0; i < 3; ++i) {
    ExpectText(world, *devices[i], LongPrompt(std::to_string(i + 1)));
  }
}

// Whoever begins as one that ends, is cut or is evicted before the target has heard of either.
TEST(VerifierMachine, AForkIsMadeBeforeWhatItIsOfIsGone) {
  enum class End { kClose, kTruncate, kEvict };
  for (const End end : {End::kClose, End::kTruncate, End::kEvict}) {
    VerifierConfig config = SmallConfig();
    if (end == End::kEvict) config.sequence_count_max = 2;
    VerifierWorld world(config);
    GrowingDevice busy(world, "other", OpenOf(9, "busy", v1::DRY_POLICY_ALONE));
    GrowingDevice first(world, "key", OpenLong(1, "mine"));
    busy.Attach();
    first.Attach();
    while (first.finish() == v1::FINISH_NONE) {
      world.Run();
      first.Listen();
    }
    ASSERT_NE(world.run(), nullptr) << "the target is at work for somebody else";
    GrowingDevice second(world, "key", OpenLong(2, "yours"));
    second.Attach();
    if (end == End::kClose) first.Say(CloseOf());
    if (end == End::kTruncate) {
      first.Say(TruncateOf(10));
      world.Send(first.stream(), AppendOf(10, "and then", true));
    }
    EXPECT_EQ(world.machine().stats().evictions, end == End::kEvict ? 1u : 0u);
    while (second.finish() == v1::FINISH_NONE && world.Run()) second.Listen();
    EXPECT_EQ(second.text(), TextAfter(LongPrompt("yours"), 20));
    EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1);
  }
}

// A pass's rows are the target's for good when its outcome is committed, with the next run.
TEST(VerifierMachine, WhatAPassHasComputedIsSharedWhenItIsCommitted) {
  VerifierWorld world;
  GrowingDevice first(world, "key", OpenLong(1, "mine"));
  first.Attach();
  ASSERT_TRUE(world.Run());  // the prompt and a token
  GrowingDevice second(world, "key", OpenLong(2, "yours"));
  second.Attach();
  EXPECT_EQ(world.machine().stats().shared_tokens, 0u);
  world.Run();
  GrowingDevice third(world, "key", OpenLong(3, "theirs"));
  third.Attach();
  EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1);
  ExpectText(world, first, LongPrompt("mine"));
  ExpectText(world, second, LongPrompt("yours"));
  ExpectText(world, third, LongPrompt("theirs"));
}

// Its memory goes to another before the target has heard of the fork, and comes back to it.
TEST(VerifierMachine, AForkThatIsAskedForAgainIsMadeOnce) {
  VerifierConfig config = SmallConfig();
  config.sequence_count_max = 2;
  VerifierWorld world(config);
  GrowingDevice first(world, "key", OpenLong(1, "mine"));
  first.Attach();
  world.Runs(3);
  ASSERT_NE(world.run(), nullptr) << "it is in the run";
  GrowingDevice second(world, "key", OpenLong(2, "yours"));
  second.Attach();
  second.Listen();
  second.Break();
  const StreamNumber third = world.Connect();
  world.Send(third, OpenOf(3, "three"));
  ASSERT_EQ(world.machine().stats().evictions, 1u);
  world.Send(third, CloseOf());
  second.Attach();
  second.Listen();
  EXPECT_EQ(world.machine().stats().shared_tokens, 2 * (3 * kPageTokens + 1));
  second.Break();  // so that it has no other part in the next run
  ExpectText(world, first, LongPrompt("mine"));
  second.Attach();
  second.Listen();
  ExpectText(world, second, LongPrompt("yours"));
}

TEST(VerifierMachine, AForkMayBeCutBeforeItIsMade) {
  VerifierWorld world;
  GrowingDevice busy(world, "other", OpenOf(9, "busy", v1::DRY_POLICY_ALONE));
  GrowingDevice first(world, "key", OpenLong(1, "mine"));
  busy.Attach();
  first.Attach();
  world.Runs(20);
  ASSERT_NE(world.run(), nullptr);
  GrowingDevice second(world, "key", OpenLong(2, "yours"));
  second.Attach();
  second.Listen();
  EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1);
  second.Say(TruncateOf(40));
  second.Say(AppendOf(40, "!"));
  world.Runs();
  ExpectText(world, first, LongPrompt("mine"));
  EXPECT_EQ(VerdictsOf(world.News(second.stream())).size(), 20u);
}

TEST(VerifierMachine, ASequenceIsClosedBeforeAnotherIsForkedInItsPlace) {
  VerifierConfig config = SmallConfig();
  config.sequence_count_max = 3;
  VerifierWorld world(config);
  GrowingDevice idle(world, "other", OpenOf(3, "idle", v1::DRY_POLICY_WAIT));
  idle.Attach();
  world.Runs();
  idle.Listen();
  idle.Break();
  GrowingDevice first(world, "key", OpenLong(1, "mine"));
  first.Attach();
  world.Runs();
  GrowingDevice busy(world, "other", OpenOf(9, "busy", v1::DRY_POLICY_ALONE));
  busy.Attach();
  ASSERT_NE(world.run(), nullptr);
  GrowingDevice second(world, "key", OpenLong(2, "yours"));
  second.Attach();
  EXPECT_EQ(world.machine().stats().evictions, 1u);
  EXPECT_EQ(world.machine().stats().shared_tokens, 3 * kPageTokens + 1);
  ExpectText(world, second, LongPrompt("yours"));
}

// What it shares with another it may not write over; where there is no room for pages of its own it
// loses what it has, and reads all of it again.
TEST(VerifierMachine, WhoWritesASharedBeginningAnewTakesNoneFromOthers) {
  for (const uint32_t spare : {3u, 0u}) {
    VerifierConfig config = SmallConfig();
    config.page_groups = {{.page_count = 6 + 3 + spare}};
    VerifierWorld world(config);
    GrowingDevice first(world, "key", OpenLong(1, "mine", 5 * kPageTokens));
    first.Attach();
    ExpectText(world, first, LongPrompt("mine"));
    auto writes_on = OpenLong(2, "yours", 5 * kPageTokens);
    writes_on.mutable_open()->mutable_stops()->set_max_tokens(40);
    GrowingDevice second(world, "key", writes_on);
    second.Attach();
    second.Listen();
    first.Say(TruncateOf(5));
    first.Say(AppendOf(5, std::string(110, '?')));
    world.Runs();
    second.Listen();
    EXPECT_EQ(second.text(), TextAfter(LongPrompt("yours"), 40)) << spare;
    const auto news = world.News(first.stream());
    size_t tokens = 0;
    for (const v1::ServerMessage& message : news) tokens += message.has_verdict();
    EXPECT_EQ(tokens, 20u) << spare;
  }
}

}  // namespace
}  // namespace outrider
