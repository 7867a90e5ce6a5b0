// The verifier machine, event by event: what it tells a log and metrics, and what it grants to one
// origin.
#include <numeric>

#include "common/verification/machine/verifier_machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Machine = VerifierMachine;
using StreamNumber = VerifierMachine::StreamNumber;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ScriptedTarget::Times kTimes = {
    .pass = milliseconds(10), .row = {}, .prompt_token = milliseconds(1)};

v1::ClientMessage Close() {
  v1::ClientMessage message;
  message.mutable_close();
  return message;
}

uint64_t Sum(const Histogram& histogram) {
  return std::accumulate(histogram.counts().begin(), histogram.counts().end(), uint64_t{0});
}

// --- reports ---

TEST(VerifierReports, ASessionThatIsClosedSaysWhatBecameOfIt) {
  VerifierWorld world(SmallConfig(), kTimes);
  GrowingDevice device(world, "robot", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Runs(5);
  device.Listen();
  device.Break();
  device.Attach();
  world.Run();  // the stream waits for its session's run, and so does the end of it
  world.Send(device.stream(), Close());
  world.Run();
  ASSERT_THAT(world.sessions_over, SizeIs(1));
  const Machine::SessionOver& over = world.sessions_over[0];
  EXPECT_EQ(over.key, "robot");
  EXPECT_EQ(over.why, Machine::SessionEnd::kClosed);
  const VerifierStats stats = world.machine().stats();
  EXPECT_EQ(over.tally.tokens(), stats.writing.tokens);
  EXPECT_EQ(over.tally.passes(), stats.writing.passes);
  EXPECT_GE(over.tally.passes(), 4u);
  EXPECT_EQ(over.tally.attachments(), 2u);
  EXPECT_EQ(over.tally.target_time(), milliseconds(4) + over.tally.passes() * milliseconds(10));
  EXPECT_EQ(over.tally.first_token_time(), milliseconds(14)) << "four tokens, and a pass";
  EXPECT_THAT(world.faults, SizeIs(0));
  EXPECT_EQ(stats.resumes + stats.sessions_opened, 2u);
  EXPECT_EQ(stats.sessions, 0u);
}

TEST(VerifierReports, WhoSharesARunPaysForItsRowsAndNobodyPaysTwice) {
  VerifierWorld world(SmallConfig(), kTimes);
  GrowingDevice one(world, "robot", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  GrowingDevice other(world, "rover", OpenOf(2, "once", v1::DRY_POLICY_ALONE));
  one.Attach();
  other.Attach();
  world.Runs(9);
  world.Send(one.stream(), Close());
  world.Send(other.stream(), Close());
  world.Runs();
  ASSERT_THAT(world.sessions_over, SizeIs(2));
  const Duration both =
      world.sessions_over[0].tally.target_time() + world.sessions_over[1].tally.target_time();
  EXPECT_NEAR(std::chrono::duration<double>(both).count(),
              world.machine().stats().running.run_time.sum(), 1e-6);
}

TEST(VerifierReports, EveryFaultIsCountedByKindAndToldOnce) {
  VerifierWorld world;
  GrowingDevice device(world, "robot", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  v1::ClientMessage open = OpenOf(2, "once");
  world.Send(device.stream(), open);  // where it has no business
  ASSERT_THAT(world.faults, SizeIs(1));
  EXPECT_EQ(world.faults[0].kind, v1::Fault::MALFORMED);
  EXPECT_EQ(world.faults[0].key, "robot");
  EXPECT_EQ(world.faults[0].stream, device.stream());
  ASSERT_THAT(world.sessions_over, SizeIs(1));
  EXPECT_EQ(world.faults[0].session, world.sessions_over[0].session);
  EXPECT_EQ(world.sessions_over[0].why, Machine::SessionEnd::kFault);

  const StreamNumber stranger = world.Connect("stranger");
  world.Pass(seconds(11));
  ASSERT_THAT(world.faults, SizeIs(2));
  EXPECT_EQ(world.faults[1].kind, v1::Fault::STALLED);
  EXPECT_EQ(world.faults[1].session, 0u);
  EXPECT_EQ(world.faults[1].stream, stranger);
  const VerifierStats stats = world.machine().stats();
  EXPECT_EQ(stats.faults[v1::Fault::MALFORMED], 1u);
  EXPECT_EQ(stats.faults[v1::Fault::STALLED], 1u);
}

TEST(VerifierReports, ASessionNobodyComesBackForHasExpired) {
  VerifierWorld world;
  GrowingDevice device(world, "robot", OpenOf(1, "once"));
  device.Attach();
  device.Break();
  world.Pass(seconds(121));
  ASSERT_THAT(world.sessions_over, SizeIs(1));
  EXPECT_EQ(world.sessions_over[0].why, Machine::SessionEnd::kExpired);
  EXPECT_FALSE(world.sessions_over[0].tally.first_token_time().has_value());
}

TEST(VerifierReports, EveryTokenOfAReplyIsCountedOnce) {
  VerifierWorld world(SmallConfig(), kTimes);
  v1::ClientMessage open = OpenOf(1, "once", v1::DRY_POLICY_ALONE);
  open.mutable_open()->mutable_stops()->set_max_tokens(7);
  GrowingDevice device(world, "robot", open);
  device.Attach();
  world.Runs();
  const WritingStats writing = world.machine().stats().writing;
  EXPECT_EQ(writing.tokens, 7u);
  EXPECT_EQ(Sum(writing.first_token_time), 1u);
  EXPECT_EQ(Sum(writing.token_time) + 1, 7u);
  EXPECT_EQ(Sum(writing.queue_time), 1u);
  EXPECT_EQ(Sum(writing.reply_time), 1u);
  EXPECT_EQ(writing.finished[v1::FINISH_TOKEN_LIMIT], 1u);
  EXPECT_NEAR(writing.token_time.sum(), 0.06, 1e-9);
  const RunStats running = world.machine().stats().running;
  EXPECT_EQ(Sum(running.run_time), running.runs);
}

// --- origins ---

TEST(VerifierOrigins, HaveSoManyStreams) {
  VerifierConfig config = SmallConfig();
  config.stream_count_of_origin_max = 2;
  VerifierWorld world(config);
  const StreamNumber first = world.Connect("", "here");
  EXPECT_FALSE(world.line(world.Connect("", "here")).ended);
  const StreamNumber third = world.Connect("", "here");
  ASSERT_TRUE(world.line(third).ended);
  EXPECT_EQ(world.line(third).ended->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(world.line(third).ended->message()), HasSubstr("of this address"));
  EXPECT_FALSE(world.line(world.Connect("", "there")).ended);
  world.Close(first);
  EXPECT_FALSE(world.line(world.Connect("", "here")).ended);
}

TEST(VerifierOrigins, WithoutAKeyOpenSoManySessionsAMinute) {
  VerifierConfig config = SmallConfig();
  config.opens_per_minute = 3;
  VerifierWorld world(config);
  uint64_t nonce = 0;
  const auto opens = [&](std::string_view key, std::string_view origin) {
    const StreamNumber stream = world.Connect(key, origin);
    world.Send(stream, OpenOf(++nonce, "x"));
    const bool is_open = world.line(stream).received.at(0).has_opened();
    if (is_open) world.Send(stream, Close());
    world.Close(stream);
    return is_open;
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(opens("", "here"));
  EXPECT_FALSE(opens("", "here"));
  EXPECT_TRUE(opens("", "there"));
  world.Pass(seconds(21));
  EXPECT_TRUE(opens("", "here")) << "a third of a minute is one more";
  EXPECT_FALSE(opens("", "here"));
  // Whoever has a key is counted by that, wherever he is.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(opens("robot", "here"));
  EXPECT_FALSE(opens("robot", "elsewhere"));
}

TEST(VerifierOrigins, AreForgottenWhereThereAreTooMany) {
  Origins origins;
  for (size_t i = 0; i < 2 * Origins::kRememberedMax; ++i) {
    Origin& origin = origins.Of(Concat(i));
    origins.StreamOpened(origin);
    origins.StreamClosed(origin);
  }
  EXPECT_EQ(origins.size(), Origins::kRememberedMax);
}

}  // namespace
}  // namespace outrider
