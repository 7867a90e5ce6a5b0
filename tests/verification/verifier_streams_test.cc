// The verifier machine, event by event: readers that are slow or silent, and hints.
#include "common/verification/machine/verifier_machine.h"

#include <algorithm>
#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Kind = v1::ServerMessage::KindCase;
using Machine = VerifierMachine;
using StreamNumber = VerifierMachine::StreamNumber;
using std::chrono::seconds;

// --- readers ---

TEST(VerifierMachine, ASessionWithSeveralUnreadVerdictsIsParked) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Run();
  world.writes_at_once = false;
  EXPECT_LE(world.Runs(), 4u);
  const uint64_t passes = world.machine().stats().writing.passes;
  EXPECT_EQ(passes, 3u + 1);  // one was read
  world.Pass(seconds(1));
  EXPECT_EQ(world.run(), nullptr);
  world.writes_at_once = true;
  world.Write(device.stream());
  EXPECT_NE(world.run(), nullptr);
  world.Runs(3);
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", device.committed().size() - 4));
}

TEST(VerifierMachine, AReaderThatIsStuckIsCutOffAndMayComeBack) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  device.Listen();
  world.writes_at_once = false;
  world.Runs();
  world.Pass(seconds(29));
  EXPECT_FALSE(world.line(device.stream()).ended);
  world.Pass(seconds(1));
  EXPECT_EQ(world.line(device.stream()).ended->code(), absl::StatusCode::kDeadlineExceeded);
  world.writes_at_once = true;
  device.Break();
  device.Attach();
  world.Runs(2);
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", device.committed().size() - 4));
  EXPECT_GE(device.committed().size(), 4u + 5);
}

TEST(VerifierMachine, AStreamThatSaysNothingIsEnded) {
  VerifierWorld world;
  const StreamNumber stream = world.Connect();
  world.Pass(seconds(9));
  EXPECT_FALSE(world.line(stream).ended);
  world.Send(stream, v1::ClientMessage());  // of a kind not known yet: it says nothing
  world.Pass(seconds(1));
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::STALLED);
}

TEST(VerifierMachine, ADeviceThatEditsWithoutEndIsReadNoFasterThanItMay) {
  VerifierConfig config = SmallConfig();
  config.messages_per_second = 1600;  // a hundred edits
  VerifierWorld world(std::move(config));
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_WAIT));
  device.Attach();
  world.Runs();
  size_t edits = 0;
  const MonotonicTime end = world.clock().Now() + seconds(2);
  while (world.clock().Now() < end) {
    if (world.line(device.stream()).can_send) {
      world.Send(device.stream(), TruncateOf(3));
      ++edits;
    } else {
      ASSERT_TRUE(world.timer());
      world.Pass(std::max<Duration>(*world.timer() - world.clock().Now(), Duration(1)));
    }
    world.Runs();
  }
  EXPECT_GE(edits, 190u);
  EXPECT_LE(edits, 220u);
  EXPECT_FALSE(world.line(device.stream()).ended);
}

TEST(VerifierMachine, ADeviceThatIsSilentIsDetachedAndMayComeBack) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  world.Pass(std::chrono::minutes(14));
  world.Send(device.stream(), GoOf(0));
  world.Runs();
  world.Pass(std::chrono::minutes(14));
  EXPECT_FALSE(world.line(device.stream()).ended);
  world.Pass(std::chrono::minutes(1));
  EXPECT_EQ(FaultOf(world, device.stream()).kind(), v1::Fault::STALLED);
  device.Listen();
  device.Break();
  device.Attach();
  device.Listen();
  EXPECT_TRUE(device.attached());
}

TEST(VerifierMachine, StreamsAreBounded) {
  VerifierConfig config = SmallConfig();
  config.stream_count_max = 2;
  VerifierWorld world(config);
  const StreamNumber first = world.Connect();
  world.Connect();
  const StreamNumber third = world.Connect();
  ASSERT_TRUE(world.line(third).ended.has_value());
  EXPECT_EQ(world.line(third).ended->code(), absl::StatusCode::kResourceExhausted);
  world.Close(first);
  EXPECT_FALSE(world.line(world.Connect()).ended);
}

TEST(VerifierMachine, OfAKeyThereAreAsManyStreamsAsItsTermsOrTheServerSay) {
  VerifierConfig config = SmallConfig();
  config.stream_count_of_key_max = 1;
  VerifierWorld world(config);
  const StreamNumber first = world.Connect("one");
  const StreamNumber second = world.Connect("one");
  ASSERT_TRUE(world.line(second).ended.has_value());
  EXPECT_EQ(world.line(second).ended->code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(world.streams_refused.size(), 1u);
  EXPECT_EQ(world.streams_refused[0].limit, Machine::StreamLimit::kOfKey);
  EXPECT_EQ(world.streams_refused[0].key, "one");
  world.Connect("two", "", CallerTerms{.streams_max = 2});
  EXPECT_FALSE(world.line(world.Connect("two", "", CallerTerms{.streams_max = 2})).ended);
  EXPECT_TRUE(world.line(world.Connect("two", "", CallerTerms{.streams_max = 2})).ended);
  EXPECT_FALSE(world.line(world.Connect("")).ended);
  EXPECT_FALSE(world.line(world.Connect("")).ended) << "without a key nobody is somebody";
  world.Close(first);
  EXPECT_FALSE(world.line(world.Connect("one")).ended);
}

// Else a device that has its key's streams fills the memory from one network after the other.
TEST(VerifierMachine, WhoIsRefusedLeavesNothingBehind) {
  VerifierConfig config = SmallConfig();
  config.stream_count_of_key_max = 1;
  VerifierWorld world(config);
  world.Connect("one", "ipv6:2001:db8::");
  for (const char* const origin : {"ipv6:2001:db8:0:1::", "ipv6:2001:db8:0:2::"}) {
    EXPECT_TRUE(world.line(world.Connect("one", origin)).ended);
  }
  world.machine().CheckInvariants();
}

// --- what devices have seen ---

TEST(VerifierMachine, ADeviceThatDoesNotSayWhatItSawGetsFewVerdicts) {
  VerifierConfig config = SmallConfig();
  config.unseen_verdicts_first = 4;
  config.unseen_verdicts_max = 10;
  VerifierWorld world(config);
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  uint32_t verdicts = world.machine().stats().writing.passes;
  const auto verdicts_after = [&](std::optional<uint32_t> seen) {
    if (seen) world.Send(stream, ChainOf(*seen, 1, {}));
    world.Runs();
    verdicts += static_cast<uint32_t>(VerdictsOf(world.News(stream)).size());
    return verdicts;
  };
  EXPECT_EQ(verdicts_after({}), 4u);
  EXPECT_EQ(verdicts_after(2), 2u + 6);
  EXPECT_EQ(verdicts_after(8), 8u + 10) << "no more than there may be";
  EXPECT_EQ(verdicts_after({}), 18u);
}

// Else who never reads gets as many as he edits for.
TEST(VerifierMachine, WhoEditsHasNotSaidWhatHeSaw) {
  VerifierConfig config = SmallConfig();
  config.unseen_verdicts_first = 4;
  config.unseen_verdicts_max = 10;
  VerifierWorld world(config);
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  world.Runs();
  ASSERT_EQ(VerdictsOf(world.News(stream)).size(), 3u) << "after that of the Open";
  for (int turn = 0; turn < 5; ++turn) {
    world.Send(stream, TruncateOf(4));
    world.Send(stream, AppendOf(4, " upon"));
    world.Runs();
    EXPECT_TRUE(VerdictsOf(world.News(stream)).empty());
  }
  world.Send(stream, ChainOf(4, 1, {}));
  world.Runs();
  EXPECT_EQ(VerdictsOf(world.News(stream)).size(), 8u) << "four, and one for each that was seen";
}

// --- hints ---

VerifierConfig WithExits() {
  VerifierConfig config = SmallConfig();
  config.exit_depths = {300, 500, 700, 900};
  return config;
}

TEST(VerifierMachine, HintsAreForThoseWhoAskedAndSpeakOfTheirNodes) {
  VerifierWorld world(WithExits());
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_hints(true);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  const StreamNumber other = OpenSession(world, 2, "twice");
  world.Runs();
  world.News(stream);
  world.Send(stream, ChainOf(0, 5, Tokens("abc")));
  world.Send(other, ChainOf(0, 5, Tokens("abc")));
  world.Tell(Machine::HintFound{1, 2, {1, 'x'}, 0.5});
  world.Tell(Machine::HintFound{2, 2, {1, 'x'}, 0.5});  // is not in this run, and never asked
  const auto news = world.News(stream);
  ASSERT_THAT(KindsOf(news), ElementsAre(Kind::kHint));
  EXPECT_EQ(news[0].hint().verdict(), 1u);
  EXPECT_EQ(news[0].hint().exit(), 2u);
  EXPECT_EQ(news[0].hint().leaf(), 6u);
  EXPECT_EQ(news[0].hint().next(), static_cast<uint32_t>('x'));
  EXPECT_EQ(news[0].hint().probability(), 128u);
  world.Runs();
  world.Pass(std::chrono::seconds(1));  // the other one waits a moment for the first
  world.Runs();
  EXPECT_THAT(KindsOf(world.News(other)), ElementsAre(Kind::kVerdict));
  world.Tell(Machine::HintFound{1, 3, {1, 'x'}, 0.9});  // after its verdict
  EXPECT_THAT(KindsOf(world.News(stream)), ElementsAre(Kind::kVerdict, Kind::kVerdict))
      << "its own, and that of its root, which took part in the other one's run";
}

TEST(VerifierMachine, ExitsLookAmongTheTokensBesideThePassOfThoseWhoWantHints) {
  for (const bool hints : {true, false}) {
    VerifierWorld world(WithExits());
    auto open = OpenOf(1, "once");
    open.mutable_open()->set_hints(hints);
    open.mutable_open()->set_pass_nodes(2);
    const StreamNumber stream = world.Connect();
    world.Send(stream, open);
    world.Run();
    world.Send(stream, ChainOf(0, 1, Tokens("abc")));
    ASSERT_NE(world.run(), nullptr);
    const TargetWork& work = world.run()->works.at(0);
    EXPECT_EQ(work.nodes.size(), 2u);
    EXPECT_EQ(std::vector(work.candidates.begin(), work.candidates.end()),
              hints ? Tokens("c") : std::vector<TokenId>());
  }
}

// Six sessions on a target of 20 ms and 12 for each row: a node would have to be nearly sure.
TEST(VerifierMachine, ExitsRestWhereNextToNoNodeIsTaken) {
  VerifierWorld world(WithExits(), {.row = std::chrono::milliseconds(12)});
  const auto open = [&](uint64_t nonce) {
    auto message = OpenOf(nonce, "once");
    message.mutable_open()->set_hints(true);
    message.mutable_open()->set_dry_policy(v1::DRY_POLICY_ALONE);
    world.Send(world.Connect(), message);
  };
  const auto is_guessed = [&] {
    const std::vector<TargetWork>& works = world.run()->works;
    return std::ranges::any_of(works, [](const TargetWork& work) { return work.is_guessed; });
  };
  open(1);
  world.Runs(10);
  EXPECT_TRUE(is_guessed());
  for (uint64_t other = 2; other <= 6; ++other) open(other);
  world.Runs(40);
  EXPECT_FALSE(is_guessed());
}

// What is being written when the others come is of no order.
std::vector<uint32_t> NextsByOrder(HintOrder order) {
  VerifierConfig config = WithExits();
  config.hint_order = order;
  VerifierWorld world(config);
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_hints(true);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  world.Run();
  world.News(stream);
  world.writes_at_once = false;
  world.Send(stream, ChainOf(0, 1, Tokens("abc")));
  world.Tell(Machine::HintFound{1, 0, {0, 'w'}, 0.1, 0.1});
  world.Tell(Machine::HintFound{1, 0, {0, 'x'}, 0.4, 0.7});
  world.Tell(Machine::HintFound{1, 1, {0, 'y'}, 0.8, 0.2});
  world.Tell(Machine::HintFound{1, 2, {0, 'z'}, 0.6, 0.9});
  world.Tell(Machine::HintFound{1, 3, {0, 'x'}, 0.5, 0.8});  // again: it has its place
  world.writes_at_once = true;
  world.Write(stream);
  std::vector<uint32_t> nexts;
  for (const v1::ServerMessage& message : world.News(stream)) {
    if (message.has_hint()) nexts.push_back(message.hint().next());
  }
  return nexts;
}

TEST(VerifierMachine, HintsThatWaitGoInTheOrderThatWasAskedFor) {
  EXPECT_THAT(NextsByOrder(HintOrder::kProbability), ElementsAre('w', 'y', 'z', 'x'));
  EXPECT_THAT(NextsByOrder(HintOrder::kSoftmax), ElementsAre('w', 'z', 'x', 'y'));
  EXPECT_THAT(NextsByOrder(HintOrder::kArrival), ElementsAre('w', 'x', 'y', 'z'));
  // The world's bits are a sequence: some order, and none of the others'.
  const std::vector<uint32_t> random = NextsByOrder(HintOrder::kRandom);
  EXPECT_THAT(random, testing::UnorderedElementsAre('w', 'x', 'y', 'z'));
  EXPECT_EQ(random.front(), uint32_t{'w'});
  EXPECT_NE(random, NextsByOrder(HintOrder::kProbability));
  EXPECT_NE(random, NextsByOrder(HintOrder::kArrival));
}

TEST(VerifierMachine, HintsOrderedBySoftmaxCallItTheirProbability) {
  VerifierConfig config = WithExits();
  config.hint_order = HintOrder::kSoftmax;
  VerifierWorld world(config);
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_hints(true);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  world.Run();
  world.News(stream);
  world.Send(stream, ChainOf(0, 1, Tokens("abc")));
  world.Tell(Machine::HintFound{1, 0, {0, 'x'}, 0.25, 0.75});
  EXPECT_EQ(world.News(stream).at(0).hint().probability(), 191u);
}

TEST(VerifierMachine, AHintThatWaitsGoesWithItsVerdict) {
  VerifierWorld world(WithExits());
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_hints(true);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  world.Runs();
  world.News(stream);
  world.writes_at_once = false;
  world.Send(stream, ChainOf(0, 1, Tokens("abc")));
  for (const double probability : {0.2, 0.4, 0.8}) {
    world.Tell(Machine::HintFound{1, 0, {0, 'x'}, probability});
  }
  world.Run();
  world.writes_at_once = true;
  world.Write(stream);
  // The first was being written; the others were overtaken.
  EXPECT_THAT(KindsOf(world.News(stream)), ElementsAre(Kind::kHint, Kind::kVerdict));
}

}  // namespace
}  // namespace outrider
