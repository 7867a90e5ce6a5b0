// The verifier machine's laws, event by event. What holds for whole sessions with real devices,
// links and faults is the simulator's to show.
#include "server/verifier_machine.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/device.h"
#include "tests/server/verifier_world.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = v1::ServerMessage::KindCase;
using Machine = VerifierMachine;
using StreamNumber = Machine::StreamNumber;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Kind> KindsOf(const std::vector<v1::ServerMessage>& messages) {
  std::vector<Kind> kinds;
  for (const v1::ServerMessage& message : messages) kinds.push_back(message.kind_case());
  return kinds;
}

std::vector<v1::Verdict> VerdictsOf(const std::vector<v1::ServerMessage>& messages) {
  std::vector<v1::Verdict> verdicts;
  for (const v1::ServerMessage& message : messages) {
    if (message.has_verdict()) verdicts.push_back(message.verdict());
  }
  return verdicts;
}

// The fault a stream has ended with.
v1::Fault FaultOf(VerifierWorld& world, StreamNumber stream) {
  const auto& received = world.line(stream).received;
  EXPECT_TRUE(world.line(stream).ended.has_value());
  if (received.empty() || !received.back().has_fault()) return {};
  return received.back().fault();
}

std::string TextAfter(std::string_view prompt, size_t count) {
  const std::vector<TokenId> text = ScriptedText(Tokens(prompt), count);
  return std::string(prompt) + std::string(text.begin(), text.end());
}

v1::ClientMessage AppendOf(uint32_t length, std::string_view text, bool reply = false) {
  v1::ClientMessage message;
  v1::Append& append = *message.mutable_append();
  append.set_length(length);
  append.set_reply(reply);
  for (const TokenId token : Tokens(text)) append.add_tokens(static_cast<uint32_t>(token));
  return message;
}

v1::ClientMessage TruncateOf(uint32_t length) {
  v1::ClientMessage message;
  message.mutable_truncate()->set_length(length);
  return message;
}

v1::ClientMessage CloseOf() {
  v1::ClientMessage message;
  message.mutable_close();
  return message;
}

// Opened, and its prompt read; if it writes alone, its first token written.
StreamNumber OpenSession(VerifierWorld& world, uint64_t nonce, std::string_view prompt,
                         v1::DryPolicy dry_policy = v1::DRY_POLICY_WAIT,
                         std::string_view key = "key") {
  const StreamNumber stream = world.Connect(key);
  world.Send(stream, OpenOf(nonce, prompt, dry_policy));
  world.Run();
  world.News(stream);
  return stream;
}

v1::ClientMessage ResumeOf(const Device& device) {
  v1::ClientMessage message;
  message.mutable_resume()->set_session(device.session());
  message.mutable_resume()->set_token(device.token());
  message.mutable_resume()->set_length(0);
  message.mutable_resume()->set_hash(0);
  message.mutable_resume()->set_attempt(device.attempts() + 1);
  return message;
}

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
  EXPECT_EQ(verdicts[0].number(), 1u);
  EXPECT_EQ(verdicts[0].leaf(), 3u);
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(fourth));
  EXPECT_EQ(verdicts[0].next_node(), 0u);
  EXPECT_EQ(verdicts[0].seen(), 4u);
  EXPECT_EQ(verdicts[0].length(), 8u);
  EXPECT_EQ(verdicts[0].finish(), v1::FINISH_NONE);
  EXPECT_EQ(verdicts[0].times().nodes(), 4u);
  EXPECT_EQ(verdicts[0].times().pass_us(), 20'250u);
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
  EXPECT_EQ(verdicts[0].leaf(), 2u);
  EXPECT_EQ(verdicts[0].next_node(), 3u);
  EXPECT_EQ(verdicts[1].leaf(), 5u);
  EXPECT_EQ(verdicts[1].next_node(), 6u);
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
  EXPECT_EQ(verdicts[1].length(), 4u + 3 + 3);
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
    EXPECT_EQ(verdicts[0].times().load(), 3u);
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
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
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
    EXPECT_EQ(verdicts[0].leaf(), 4u);
    EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(text[4]));
    EXPECT_EQ(verdicts[0].length(), 4u + 5);
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
  Device device(world, "key", open);
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
  EXPECT_EQ(verdicts[0].length(), 9u);
  EXPECT_EQ(verdicts[0].finish(), v1::FINISH_LENGTH);
}

// --- turns ---

TEST(VerifierMachine, AChatGoesOnWithWhatItHasRead) {
  VerifierWorld world;
  auto open = OpenOf(1, "hello", v1::DRY_POLICY_ALONE);
  open.mutable_open()->mutable_stops()->set_max_tokens(6);
  Device device(world, "key", open);
  device.Attach();
  world.Runs();
  device.Listen();
  EXPECT_EQ(device.finish(), v1::FINISH_TOKEN_LIMIT);
  const std::string first = device.text();
  const uint64_t read = world.machine().stats().prompt_tokens;
  world.Send(device.stream(), AppendOf(static_cast<uint32_t>(first.size()), "more?"));
  world.Runs();
  EXPECT_EQ(world.machine().stats().prompt_tokens, read + 5);
  const auto verdicts = VerdictsOf(world.News(device.stream()));
  ASSERT_THAT(verdicts, SizeIs(6));  // the limit is a reply's
  EXPECT_EQ(verdicts.back().finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(verdicts.back().edits(), 1u);
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

// --- attaching ---

TEST(VerifierMachine, OpenedSaysWhatWasGranted) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_pass_nodes(1000);
  open.mutable_open()->set_length_max(100);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  ASSERT_THAT(world.line(stream).received, SizeIs(1));
  const v1::Opened& opened = world.line(stream).received[0].opened();
  EXPECT_EQ(opened.pass_nodes(), 15u);
  EXPECT_EQ(opened.sketch_nodes_max(), 64u);
  EXPECT_EQ(opened.length_max(), 100u);
  EXPECT_EQ(opened.time_to_live_ms(), 120'000u);
  EXPECT_EQ(opened.numerics_id(), "0123456789abcdef");
  EXPECT_THAT(opened.session(), SizeIs(16));
  EXPECT_THAT(opened.token(), SizeIs(16));
  EXPECT_NE(opened.session(), opened.token());
}

TEST(VerifierMachine, ARepeatedOpenAttachesToTheSessionOfTheFirst) {
  VerifierWorld world;
  const auto open = OpenOf(1, "once", v1::DRY_POLICY_ALONE);
  Device device(world, "key", open);
  device.Attach();
  world.Runs(3);
  device.Break();  // before the device has heard a word
  device.Attach();
  world.Runs(1);
  device.Listen();
  EXPECT_EQ(world.machine().stats().sessions_opened, 1u);
  EXPECT_EQ(world.machine().stats().prompt_tokens, 4u);
  EXPECT_EQ(device.text(), TextAfter("once", device.committed().size() - 4));
  EXPECT_GE(device.committed().size(), 4u + 3);
}

TEST(VerifierMachine, ANonceIsOneOpenOfOneKey) {
  VerifierWorld world;
  const StreamNumber first = OpenSession(world, 1, "once");
  const StreamNumber other = world.Connect();
  world.Send(other, OpenOf(1, "twice"));
  EXPECT_EQ(FaultOf(world, other).kind(), v1::Fault::MALFORMED);
  EXPECT_FALSE(world.line(first).ended);
  OpenSession(world, 1, "once", v1::DRY_POLICY_WAIT, "somebody else");
  EXPECT_EQ(world.machine().session_count(), 2u);
  EXPECT_FALSE(world.line(first).ended);
}

// Streams that a device had given up, because they were slow: a newer one was answered before they
// came, and it may not have heard that answer yet.
TEST(VerifierMachine, AnOpenThatComesLateFencesNobody) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_attempt(2);
  const StreamNumber newer = world.Connect();
  world.Send(newer, open);
  world.Runs();
  for (const uint32_t attempt : {2, 1, 0}) {
    open.mutable_open()->set_attempt(attempt);
    const StreamNumber late = world.Connect();
    world.Send(late, open);
    EXPECT_EQ(FaultOf(world, late).kind(), v1::Fault::SUPERSEDED) << attempt;
  }
  EXPECT_FALSE(world.line(newer).ended);
  world.Send(newer, GoOf(0));
  EXPECT_EQ(world.Runs(), 1u);
  EXPECT_THAT(VerdictsOf(world.News(newer)), SizeIs(1));
}

TEST(VerifierMachine, AResumeThatComesLateFencesNobody) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  const auto late_resume = ResumeOf(device);  // with the token that is still good
  auto resume = late_resume;
  resume.mutable_resume()->set_attempt(3);
  const StreamNumber newer = world.Connect();
  world.Send(newer, resume);
  const StreamNumber late = world.Connect();
  world.Send(late, late_resume);
  EXPECT_EQ(FaultOf(world, late).kind(), v1::Fault::SUPERSEDED);
  const StreamNumber late_open = world.Connect();
  world.Send(late_open, OpenOf(1, "once"));
  EXPECT_EQ(FaultOf(world, late_open).kind(), v1::Fault::SUPERSEDED);
  EXPECT_FALSE(world.line(newer).ended);
  world.Send(newer, GoOf(0));
  EXPECT_EQ(world.Runs(), 1u);
}

TEST(VerifierMachine, ADeviceThatLostItsLinkLacksNothingAfterwards) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Runs(4);
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", 4));
  world.Runs(3);
  device.Break();  // three verdicts are lost
  world.Run();     // and one that was being found
  device.Attach();
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", 8));
  world.Runs(2);
  device.Listen();
  EXPECT_EQ(device.text(), TextAfter("once", 10));
}

TEST(VerifierMachine, ADeviceThatWroteOnAloneAppends) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  device.Listen();
  device.Break();
  world.Runs();
  const auto text = ScriptedText(Tokens("once"), 6);
  auto resume = ResumeOf(device);
  resume.mutable_resume()->set_length(10);
  resume.mutable_resume()->set_hash(12345);
  const StreamNumber stream = world.Connect();
  world.Send(stream, resume);
  EXPECT_EQ(world.run(), nullptr);  // it would write what the device has written
  const auto news = world.News(stream);
  ASSERT_THAT(KindsOf(news), ElementsAre(Kind::kResumed));
  EXPECT_THAT(news[0].resumed().tokens(), IsEmpty());
  const uint32_t length = news[0].resumed().length();
  const std::string rest(text.begin() + (length - 4), text.end());
  world.Send(stream, AppendOf(length, rest, /*reply=*/true));
  world.Run();
  const auto verdicts = VerdictsOf(world.News(stream));
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].length(), 11u);
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(ScriptedText(Tokens("once"), 7).back()));
}

TEST(VerifierMachine, ADeviceWithOtherTokensHasDrifted) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  auto resume = ResumeOf(device);
  resume.mutable_resume()->set_length(2);
  resume.mutable_resume()->set_hash(99);
  const StreamNumber stream = world.Connect();
  world.Send(stream, resume);
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::DRIFTED);
  EXPECT_EQ(FaultOf(world, device.stream()).kind(), v1::Fault::SUPERSEDED);
  EXPECT_EQ(world.machine().session_count(), 0u);
}

TEST(VerifierMachine, AttachingFencesTheOlderStream) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  const StreamNumber older = device.stream();
  device.Attach();
  EXPECT_EQ(FaultOf(world, older).kind(), v1::Fault::SUPERSEDED);
  EXPECT_EQ(world.line(older).ended->code(), absl::StatusCode::kAborted);
  world.Tell(Machine::Received{older, ChainOf(0, 1, Tokens("abc"))});  // was under way
  EXPECT_EQ(world.run(), nullptr);
  device.Listen();
  EXPECT_TRUE(device.attached());
  world.Send(device.stream(), GoOf(0));
  EXPECT_EQ(world.Runs(), 1u);
}

TEST(VerifierMachine, AResumeDuringAPassHasWhatThePassFinds) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Run();
  device.Listen();
  ASSERT_NE(world.run(), nullptr);
  device.Break();
  device.Attach();
  device.Listen();
  EXPECT_FALSE(device.attached());  // the answer would be out of date before it is read
  world.Run();
  device.Listen();
  EXPECT_TRUE(device.attached());
  EXPECT_EQ(device.text(), TextAfter("once", 2));
}

// --- tokens ---

class ResumeTokens : public ::testing::Test {
 protected:
  ResumeTokens() : device_(world_, "key", OpenOf(1, "once")) {
    device_.Attach();
    device_.Listen();
    world_.Runs();
  }

  // How a stream with this token fares.
  v1::Fault::Kind Try(const std::string& token, std::string_view key = "key") {
    auto resume = ResumeOf(device_);
    resume.mutable_resume()->set_token(token);
    resume.mutable_resume()->set_attempt(++attempt_);
    const StreamNumber stream = world_.Connect(key);
    world_.Send(stream, resume);
    world_.Runs();
    const auto news = world_.News(stream);
    last_ = stream;
    if (news.empty()) return v1::Fault::KIND_UNSPECIFIED;
    token_ = news.front().resumed().token();
    return news.front().fault().kind();
  }

  VerifierWorld world_;
  Device device_;
  StreamNumber last_ = 0;
  uint32_t attempt_ = 1;  // the newest, as is the token
  std::string token_;
};

TEST_F(ResumeTokens, ATokenIsVoidOnceTheDeviceHasSpokenWithTheNext) {
  const std::string first = device_.token();
  EXPECT_EQ(Try(first), v1::Fault::KIND_UNSPECIFIED);
  const std::string second = token_;
  EXPECT_NE(first, second);
  world_.Send(last_, GoOf(0));
  EXPECT_EQ(Try(first), v1::Fault::UNKNOWN_SESSION);
  EXPECT_EQ(Try(second), v1::Fault::KIND_UNSPECIFIED);
}

TEST_F(ResumeTokens, ATokenIsGoodAgainWhenItsAnswerWasLost) {
  const std::string first = device_.token();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Try(first), v1::Fault::KIND_UNSPECIFIED) << i;
  world_.Send(last_, GoOf(0));
  EXPECT_EQ(Try(first), v1::Fault::UNKNOWN_SESSION);
}

TEST_F(ResumeTokens, ATokenThatNeverArrivedIsVoidWithTheNextAnswer) {
  const std::string first = device_.token();
  Try(first);
  const std::string lost = token_;
  EXPECT_EQ(Try(first), v1::Fault::KIND_UNSPECIFIED);
  EXPECT_EQ(Try(lost), v1::Fault::UNKNOWN_SESSION);
}

TEST_F(ResumeTokens, AThiefIsRefusedAndDisturbsNobody) {
  EXPECT_EQ(Try(device_.token(), "thief"), v1::Fault::UNKNOWN_SESSION);
  EXPECT_EQ(Try(std::string(16, '\0')), v1::Fault::UNKNOWN_SESSION);
  EXPECT_EQ(Try(""), v1::Fault::UNKNOWN_SESSION);
  EXPECT_EQ(Try(device_.token() + "x"), v1::Fault::UNKNOWN_SESSION);
  EXPECT_FALSE(world_.line(device_.stream()).ended);
  world_.Send(device_.stream(), GoOf(0));
  EXPECT_EQ(world_.Runs(), 1u);
}

// --- lives ---

TEST(VerifierMachine, ASessionWithoutAStreamLivesForATime) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once"));
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
  Device device(world, "key", OpenOf(1, "once"));
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
  Device idle(world, "key", OpenOf(1, "idle", v1::DRY_POLICY_ALONE));
  idle.Attach();
  world.Runs(5);
  idle.Listen();
  idle.Break();
  world.Runs();
  auto short_reply = OpenOf(2, "busy", v1::DRY_POLICY_ALONE);
  short_reply.mutable_open()->mutable_stops()->set_max_tokens(3);
  Device busy(world, "key", short_reply);
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

// --- readers ---

TEST(VerifierMachine, ASessionWithSeveralUnreadVerdictsIsParked) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
  device.Attach();
  world.Run();
  world.writes_at_once = false;
  EXPECT_LE(world.Runs(), 4u);
  const uint64_t passes = world.machine().stats().passes;
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
  Device device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
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

TEST(VerifierMachine, ADeviceThatIsSilentIsDetachedAndMayComeBack) {
  VerifierWorld world;
  Device device(world, "key", OpenOf(1, "once"));
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

// --- hints ---

TEST(VerifierMachine, HintsAreForThoseWhoAskedAndSpeakOfTheirNodes) {
  VerifierWorld world;
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
  EXPECT_THAT(KindsOf(world.News(other)), ElementsAre(Kind::kVerdict));
  world.Tell(Machine::HintFound{1, 3, {1, 'x'}, 0.9});  // after its verdict
  EXPECT_THAT(KindsOf(world.News(stream)), ElementsAre(Kind::kVerdict));
}

TEST(VerifierMachine, AHintThatWaitsGoesWithItsVerdict) {
  VerifierWorld world;
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

// --- draining ---

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
  Device device(world, "key", OpenOf(1, "once"));
  device.Attach();
  world.Runs();
  device.Break();
  world.Tell(Machine::Drain{world.clock().Now() + seconds(10)});
  world.Runs();
  EXPECT_TRUE(world.drained());
}

// --- refusals ---

TEST(VerifierMachine, OtherModelsAndTokenizersAreRefusedByName) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_tokenizer_fingerprint("0000000000000001");
  StreamNumber stream = world.Connect();
  world.Send(stream, open);
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MISMATCH);
  EXPECT_THAT(FaultOf(world, stream).message(),
              AllOf(HasSubstr("0000000000000001"), HasSubstr("fedcba9876543210")));
  open.mutable_open()->clear_tokenizer_fingerprint();
  open.mutable_open()->set_numerics_id("0000000000000002");
  stream = world.Connect();
  world.Send(stream, open);
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MISMATCH);
  EXPECT_THAT(FaultOf(world, stream).message(),
              AllOf(HasSubstr("0000000000000002"), HasSubstr("0123456789abcdef")));
  open.mutable_open()->set_numerics_id("0123456789abcdef");
  open.mutable_open()->set_tokenizer_fingerprint("fedcba9876543210");
  stream = world.Connect();
  world.Send(stream, open);
  EXPECT_FALSE(world.line(stream).ended);
}

TEST(VerifierMachine, AStreamBeginsWithOpenOrResumeAndHasOneOfThem) {
  VerifierWorld world;
  const StreamNumber early = world.Connect();
  world.Send(early, GoOf(0));
  EXPECT_EQ(FaultOf(world, early).kind(), v1::Fault::MALFORMED);
  const StreamNumber stream = OpenSession(world, 1, "once");
  world.Send(stream, OpenOf(2, "twice"));
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MALFORMED);
}

TEST(VerifierMachine, MessagesOfUnknownKindsAreIgnored) {
  VerifierWorld world;
  const StreamNumber stream = world.Connect();
  v1::ClientMessage unknown;
  ASSERT_TRUE(unknown.ParseFromString("\xa2\x06\x03xyz"));  // field 100
  world.Send(stream, unknown);
  world.Send(stream, OpenOf(1, "once"));
  world.Send(stream, unknown);
  world.Runs();
  world.Send(stream, GoOf(0));
  world.Runs();
  EXPECT_THAT(VerdictsOf(world.News(stream)), SizeIs(1));
}

// --- whatever happens ---

// Devices that draft well or badly, lose their links at any moment, and come back, on a server with
// too little memory for all of them: each ends with the target's own text.
TEST(VerifierMachine, TheTextIsTheTargetsWhateverHappens) {
  uint64_t evictions = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    VerifierConfig config = SmallConfig();
    config.page_count = 3 * 17;
    config.scheduler.row_count_max = 20;
    VerifierWorld world(config);
    constexpr v1::DryPolicy kPolicies[] = {v1::DRY_POLICY_ADAPTIVE, v1::DRY_POLICY_WAIT,
                                           v1::DRY_POLICY_ALONE};
    std::vector<std::unique_ptr<Device>> devices;
    for (uint64_t i = 0; i < 5; ++i) {
      auto open = OpenOf(i + 1, "prompt " + std::to_string(i), kPolicies[random() % 3]);
      open.mutable_open()->set_length_max(100 + random() % 100);
      open.mutable_open()->set_pass_nodes(random() % 10);
      devices.push_back(std::make_unique<Device>(world, "key " + std::to_string(i % 2), open));
      devices.back()->Attach();
    }
    const auto is_done = [](const auto& device) { return device->finish() != v1::FINISH_NONE; };
    int steps = 0;
    for (; steps < 200'000 && !std::ranges::all_of(devices, is_done); ++steps) {
      Device& device = *devices[random() % devices.size()];
      switch (random() % 12) {
        case 0:
          if (random() % 4 > 0) break;
          device.Listen();  // or not: then what has come is lost
          device.Break();
          device.Attach();
          break;
        case 1:
        case 2:
        case 3:
          device.Listen();
          if (device.fault()) device.Attach();  // no room yet
          if (device.can_send()) device.Draft(random, 1 + random() % 5, 0.7);
          break;
        case 4:
          if (device.can_send()) device.Say(GoOf(device.verdict()));
          break;
        case 5:
          world.writes_at_once = !world.writes_at_once;
          break;
        case 6:
          world.Pass(milliseconds(random() % 50));
          break;
        default:
          world.Run();
          break;
      }
      device.Listen();
    }
    for (const auto& device : devices) {
      const std::string prompt = device->text().substr(0, 8);
      EXPECT_EQ(device->text(), TextAfter(prompt, device->committed().size() - prompt.size()));
      EXPECT_EQ(device->finish(), v1::FINISH_LENGTH);
    }
    evictions += world.machine().stats().evictions;
  }
  EXPECT_GT(evictions, 0u);
}

}  // namespace
}  // namespace outrider
