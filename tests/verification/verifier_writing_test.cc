// The verifier machine, event by event: passes and when they begin, prompts, the ends of replies,
// turns.
#include "common/verification/machine/verifier_machine.h"

#include "common/verification/machine/row_worth.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using StreamNumber = VerifierMachine::StreamNumber;
using std::chrono::milliseconds;
using std::chrono::seconds;

// --- passes ---

TEST(VerifierMachine, ADraftIsWalkedAndTheVerdictSaysHowFar) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  std::vector<TokenId> draft = ScriptedText(Tokens("once"), 4);
  const TokenId fourth = std::exchange(draft[3], '!');
  world.Send(stream, ChainOf(0, 1, draft));
  world.Run();
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(LeafOf(verdicts[0]), 3u);
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(fourth));
  EXPECT_EQ(verdicts[0].seen(), 4u);
  EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", 4)));
  EXPECT_EQ(verdicts[0].finish(), v1::FINISH_NONE);
  EXPECT_EQ(verdicts[0].nodes(), 4u);
  EXPECT_EQ(verdicts[0].pass_us(), 20'250u);
}

TEST(VerifierMachine, VerdictsTellTheirTimesInTurns) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  const auto text = ScriptedText(Tokens("once"), 1);
  for (uint32_t seen = 0; seen < 6; ++seen) {
    world.Send(stream, ChainOf(seen, seen + 1, Tokens("!")));
    world.clock().Advance(milliseconds(3));
    world.Run();
    const auto verdicts = VerdictsOf(world.News(stream));
    ASSERT_THAT(verdicts, SizeIs(1));
    EXPECT_EQ(verdicts[0].pass_us(), seen % 2 == 0 ? 20'100u : 0u);
    EXPECT_EQ(verdicts[0].since_seen_us(), seen % 2 == 1 ? 23'100u : 0u);
  }
  // Where there is no time since, the pass's is told.
  world.Send(stream, AppendOf(10, "again"));
  world.Runs();
  for (uint32_t seen = 6; seen < 8; ++seen) {
    world.Send(stream, GoOf(seen));
    world.Run();
    EXPECT_EQ(VerdictsOf(world.News(stream)).at(0).pass_us(), 20'050u);
  }
}

TEST(VerifierMachine, GrowthSentAheadStartsTheNextPassAtOnce) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_pass_nodes(2);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  world.Runs();
  const auto text = ScriptedText(Tokens("once"), 7);
  world.Send(stream, ChainOf(0, 1, std::span(text).first(6)));
  EXPECT_EQ(world.Runs(), 2u);  // two nodes and a choice each, without a word from the device
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(LeafOf(verdicts[0]), 2u);
  EXPECT_EQ(LeafOf(verdicts[1]), 5u);
}

TEST(VerifierMachine, GrowthThatComesDuringAPassIsBelowWhatThePassFinds) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  const auto text = ScriptedText(Tokens("once"), 7);
  world.Send(stream, ChainOf(0, 1, std::span(text).first(2)));
  world.Send(stream, ChainOf(0, 3, std::span(text).first(5)));  // the same two, and three more
  world.Run();
  ASSERT_NE(world.run(), nullptr);
  world.Run();
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(verdicts[0].seen(), 2u);
  EXPECT_EQ(verdicts[1].seen(), 7u);
  EXPECT_EQ(verdicts[1].hash(), HashOf(TextAfter("once", 6)));
}

TEST(VerifierMachine, ReadySessionsShareARun) {
  VerifierWorld world;
  std::vector<StreamNumber> streams;
  for (uint64_t nonce = 1; nonce <= 4; ++nonce) {
    streams.push_back(OpenSession(world, nonce, "session " + std::to_string(nonce)));
  }
  const StreamNumber busy = OpenSession(world, 5, "busy");
  world.Send(busy, GoOf(0));  // keeps the target, so that the others gather
  for (const StreamNumber stream : streams) world.Send(stream, ChainOf(0, 1, Tokens("ab")));
  world.Run();
  ASSERT_NE(world.run(), nullptr);
  EXPECT_THAT(world.run()->works, SizeIs(4));
  world.Run();
  for (const StreamNumber stream : streams) {
    const auto verdicts = VerdictsOf(world.News(stream));
    ASSERT_THAT(verdicts, SizeIs(1));
  }
}

TEST(VerifierMachine, AFailingTargetFaultsThatSessionOnly) {
  VerifierWorld world;
  const StreamNumber first = OpenSession(world, 1, "once");
  const StreamNumber second = OpenSession(world, 2, "twice");
  world.target().fails_next_pass = true;
  world.Send(first, GoOf(0));
  world.Send(second, GoOf(0));
  world.Runs();
  const v1::Fault fault = FaultOf(world, first);
  EXPECT_EQ(fault.kind(), v1::Fault::TARGET);
  EXPECT_EQ(fault.message(), "the machine is on fire");
  EXPECT_THAT(VerdictsOf(world.News(second)), SizeIs(1));
  EXPECT_EQ(world.machine().session_count(), 1u);
  EXPECT_EQ(world.target().sequence_count(), 1u);
}

// --- dry roots ---

TEST(VerifierMachine, AWaitingSessionHasNoPassUntilItGrowsOrSaysGo) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  world.Pass(seconds(100));
  EXPECT_EQ(world.run(), nullptr);
  world.Send(stream, GoOf(0));
  EXPECT_EQ(world.Runs(), 1u);
  world.Pass(seconds(100));
  EXPECT_EQ(world.run(), nullptr);  // `go` was for that root
  world.Send(stream, GoOf(0));      // and so is this one, which comes too late
  EXPECT_EQ(world.run(), nullptr);
  world.Send(stream, ChainOf(1, 1, Tokens("a")));
  EXPECT_EQ(world.Runs(), 1u);
  EXPECT_THAT(VerdictsOf(world.News(stream)), SizeIs(2));
}

TEST(VerifierMachine, ASessionAloneWritesTheTargetsText) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Runs(10);
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", 10));
}

TEST(VerifierMachine, AnAdaptiveSessionGoesOnAloneWhenGrowthDoesNotCome) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_ADAPTIVE);
  EXPECT_EQ(world.run(), nullptr);
  ASSERT_TRUE(world.timer().has_value());
  EXPECT_LE(*world.timer(), world.clock().Now() + milliseconds(20));
  world.Pass(milliseconds(20));
  EXPECT_NE(world.run(), nullptr);
  world.Run();
  EXPECT_THAT(VerdictsOf(world.News(stream)), SizeIs(1));
}

v1::ClientMessage TuneOf(v1::DryPolicy dry_policy) {
  v1::ClientMessage message;
  message.mutable_tune()->set_dry_policy(dry_policy);
  return message;
}

TEST(VerifierMachine, ATunedSessionDoesAsItWasLastTold) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_WAIT);
  world.Pass(std::chrono::seconds(1));
  EXPECT_EQ(world.run(), nullptr);
  world.Send(stream, TuneOf(v1::DRY_POLICY_ALONE));
  EXPECT_EQ(world.Runs(3), 3u);
  world.Send(stream, TuneOf(v1::DRY_POLICY_WAIT));
  world.Runs(1);  // the one that was under way
  world.Pass(std::chrono::seconds(1));
  EXPECT_EQ(world.run(), nullptr);
  // The sketch stays as it was: this is no edit.
  world.Send(stream,
             ChainOf(static_cast<uint32_t>(VerdictsOf(world.News(stream)).size()), 1, Tokens("x")));
  EXPECT_EQ(world.Runs(1), 1u);
  EXPECT_THAT(VerdictsOf(world.News(stream)), SizeIs(1));
}

TEST(VerifierMachine, ATunedSessionHasAsManyNodesInAPassAsItAsksFor) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once", v1::DRY_POLICY_WAIT);
  const auto text = ScriptedText(Tokens("once"), 30);
  const std::span wrong = std::span(text).subspan(20, 4);  // none of them is accepted
  const auto nodes_of_pass = [&](uint32_t seen, uint32_t first_id) {
    world.Send(stream, ChainOf(seen, first_id, {wrong.begin(), wrong.end()}));
    world.Runs(1);
    const auto verdicts = VerdictsOf(world.News(stream));
    EXPECT_THAT(verdicts, SizeIs(1));
    return verdicts.at(0).nodes();
  };
  EXPECT_EQ(nodes_of_pass(0, 1), 4u);
  v1::ClientMessage tune = TuneOf(v1::DRY_POLICY_WAIT);
  tune.mutable_tune()->set_pass_nodes(2);
  world.Send(stream, tune);
  EXPECT_EQ(nodes_of_pass(1, 5), 2u);
  world.Send(stream, TuneOf(v1::DRY_POLICY_WAIT));  // which says nothing of them
  EXPECT_EQ(nodes_of_pass(2, 9), 2u);
  v1::ClientMessage growth = ChainOf(3, 13, {wrong.begin(), wrong.end()});
  growth.mutable_grow()->set_pass_nodes(3);
  world.Send(stream, growth);
  world.Runs(1);
  EXPECT_EQ(VerdictsOf(world.News(stream)).at(0).nodes(), 3u);
  EXPECT_EQ(nodes_of_pass(4, 17), 3u);
}

// Six sessions have a token each of runs of 20 ms and 4 for each row.
TEST(VerifierMachine, AVerdictSaysWhatANodeHasToPromiseBesideOthers) {
  VerifierWorld world(SmallConfig(), {.row = milliseconds(4)});
  const StreamNumber first = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  const auto least = [&](int runs) {
    uint32_t last = 0;
    for (int i = 0; i < runs; ++i) {
      world.Run();
      for (const v1::Verdict& verdict : VerdictsOf(world.News(first)))
        last = verdict.least_chance();
    }
    return last;
  };
  EXPECT_EQ(least(10), 0u) << "who is alone knows what pays";
  for (uint64_t other = 2; other <= 6; ++other) {
    OpenSession(world, other, "twice", v1::DRY_POLICY_ALONE);
  }
  EXPECT_NEAR(least(40), 100 * RowWorth::kMargin * 4 * 6 / (20 + 6 * 4), 5);
}

TEST(VerifierMachine, AnAdaptiveSessionLetsOthersGoFirst) {
  VerifierConfig config = SmallConfig();
  config.scheduler.row_count_max = 4;
  VerifierWorld world(config);
  const StreamNumber dry = OpenSession(world, 1, "once", v1::DRY_POLICY_ADAPTIVE);
  const StreamNumber busy = OpenSession(world, 2, "twice");
  const auto text = ScriptedText(Tokens("twice"), 30);
  world.Send(busy, ChainOf(0, 1, text));
  world.Pass(milliseconds(30));  // it is time, but the rows are taken
  world.Run();
  EXPECT_THAT(VerdictsOf(world.News(dry)), IsEmpty());
  EXPECT_THAT(VerdictsOf(world.News(busy)), SizeIs(1));
  world.Runs(20);
  EXPECT_THAT(VerdictsOf(world.News(dry)), Not(IsEmpty()));  // once nobody wants them
}

// --- prompts ---

TEST(VerifierMachine, ALongPromptIsReadInPartsThatOthersPassesGoBetween) {
  VerifierConfig config = SmallConfig();
  config.scheduler.prompt_time_max = milliseconds(20);
  VerifierWorld world(config);
  const StreamNumber writer = OpenSession(world, 1, "once", v1::DRY_POLICY_ALONE);
  const StreamNumber reader = world.Connect();
  world.Send(reader, OpenOf(2, std::string(200, 'p'), v1::DRY_POLICY_ALONE));
  world.News(writer);
  uint32_t processed = 0;
  while (world.News(reader).empty()) world.Run();
  for (int i = 0; i < 9; ++i) {
    const MonotonicTime before = world.clock().Now();
    world.Run();
    // A token takes 1 ms to read, a pass of two 20.1: whoever writes is not held up longer.
    EXPECT_LE(world.clock().Now() - before, milliseconds(42));
    EXPECT_THAT(VerdictsOf(world.News(writer)), SizeIs(1));
    const auto news = world.News(reader);
    for (const v1::ServerMessage& message : news) {
      if (!message.has_progress()) continue;
      EXPECT_EQ(message.progress().total(), 200u);
      EXPECT_EQ(message.progress().cache(), 0u);
      EXPECT_GT(message.progress().processed(), processed);
      EXPECT_GT(message.progress().time_ms(), 0u);
      processed = message.progress().processed();
    }
  }
  EXPECT_GT(processed, 100u);
  world.Runs(4);
  EXPECT_THAT(VerdictsOf(world.News(reader)), Not(IsEmpty()));
}

// --- ends of replies ---

v1::ClientMessage OpenWithStops(std::string_view prompt, const v1::Stops& stops) {
  v1::ClientMessage message = OpenOf(1, prompt, v1::DRY_POLICY_WAIT);
  *message.mutable_open()->mutable_stops() = stops;
  return message;
}

TEST(VerifierMachine, NothingIsCommittedPastAStop) {
  const auto text = ScriptedText(Tokens("once"), 12);
  std::vector<std::pair<v1::Stops, v1::Finish>> cases(3);
  cases[0].first.set_max_tokens(5);
  cases[0].second = v1::FINISH_TOKEN_LIMIT;
  cases[1].first.add_strings(std::string(text.begin() + 3, text.begin() + 5));
  cases[1].second = v1::FINISH_STOP_STRING;
  cases[2].first.add_end_tokens(static_cast<uint32_t>(text[4]));
  cases[2].second = v1::FINISH_END_TOKEN;
  for (const auto& [stops, finish] : cases) {
    VerifierWorld world;
    const StreamNumber stream = world.Connect();
    world.Send(stream, OpenWithStops("once", stops));
    world.Runs();
    world.Send(stream, ChainOf(0, 1, text));  // all of it right, far past the stop
    world.Runs();
    const auto verdicts = VerdictsOf(world.News(stream));
    ASSERT_THAT(verdicts, SizeIs(1)) << finish;
    EXPECT_EQ(verdicts[0].finish(), finish);
    EXPECT_EQ(LeafOf(verdicts[0]), 4u);
    EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(text[4]));
    EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", 5)));
    // The next turn stands on exactly those: the target checks every token of them.
    world.Send(stream, AppendOf(9, " and then"));
    world.Runs();
    world.Send(stream, GoOf(1));
    EXPECT_EQ(world.Runs(), 1u);
    EXPECT_EQ(world.line(stream).ended, std::nullopt);
  }
}

TEST(VerifierMachine, AReplyEndsWhereTheContextDoes) {
  VerifierWorld world;
  auto open = OpenOf(1, "once", v1::DRY_POLICY_ALONE);
  open.mutable_open()->set_length_max(20);
  GrowingDevice device(world, "key", open);
  device.Attach();
  world.Runs();
  device.Listen();
  // As a target alone does it: the last token is chosen at the last position, and never read.
  EXPECT_EQ(device.text(), TextAfter("once", 17));
  EXPECT_EQ(device.finish(), v1::FINISH_LENGTH);
}

TEST(VerifierMachine, NodesBeyondTheContextAreNeverRun) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_length_max(8);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  world.Runs();
  const auto text = ScriptedText(Tokens("once"), 12);
  world.Send(stream, ChainOf(0, 1, text));
  world.Runs();  // the target refuses what does not fit
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", 5)));
  EXPECT_EQ(verdicts[0].finish(), v1::FINISH_LENGTH);
}

// --- turns ---

TEST(VerifierMachine, AChatGoesOnWithWhatItHasRead) {
  VerifierWorld world;
  auto open = OpenOf(1, "hello", v1::DRY_POLICY_ALONE);
  open.mutable_open()->mutable_stops()->set_max_tokens(6);
  GrowingDevice device(world, "key", open);
  device.Attach();
  world.Runs();
  device.Listen();
  EXPECT_EQ(device.finish(), v1::FINISH_TOKEN_LIMIT);
  const std::string first = device.text();
  const uint64_t read = world.machine().stats().running.prompt_tokens;
  world.Send(device.stream(), AppendOf(static_cast<uint32_t>(first.size()), "more?"));
  world.Runs();
  EXPECT_EQ(world.machine().stats().running.prompt_tokens, read + 5);
  const auto verdicts = VerdictsOf(world.News(device.stream()));
  ASSERT_THAT(verdicts, SizeIs(6));  // the limit is a reply's
  EXPECT_EQ(verdicts.back().finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(verdicts.front().edits(), 1u);
  EXPECT_EQ(verdicts.back().edits(), 0u);  // said once
  const auto text = ScriptedText(Tokens(first + "more?"), 6);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(verdicts[i].next(), static_cast<uint32_t>(text[i]));
}

TEST(VerifierMachine, AnEditWaitsForTheRunItWouldDisturb) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once upon", v1::DRY_POLICY_ALONE);
  ASSERT_NE(world.run(), nullptr);
  world.Send(stream, TruncateOf(4));
  EXPECT_FALSE(world.line(stream).can_send);  // nothing overtakes it
  world.Run();
  EXPECT_TRUE(world.line(stream).can_send);
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].edits(), 0u);  // so the device knows that it is void
  EXPECT_EQ(world.run(), nullptr);     // it waits for an Append
  world.Send(stream, AppendOf(4, " more"));
  world.Run();
  const auto after = VerdictsOf(world.News(stream));
  ASSERT_THAT(after, SizeIs(1));
  EXPECT_EQ(after[0].edits(), 2u);
  EXPECT_EQ(after[0].next(), static_cast<uint32_t>(ScriptedNext(Tokens("once more"))));
}

TEST(VerifierMachine, AnAppendToOtherTokensIsDrift) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  world.Send(stream, AppendOf(3, "more"));
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::DRIFTED);
  EXPECT_EQ(world.machine().session_count(), 0u);
}

}  // namespace
}  // namespace outrider
