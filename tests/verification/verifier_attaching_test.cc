// The verifier machine, event by event: how devices attach to sessions, and who is refused.
#include "common/verification/machine/verifier_machine.h"

#include <map>
#include <string>
#include <vector>

#include "common/verification/own_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = v1::ServerMessage::KindCase;
using Machine = VerifierMachine;
using StreamNumber = VerifierMachine::StreamNumber;

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
  GrowingDevice device(world, "key", open);
  device.Attach();
  world.Runs(3);
  device.Break();  // before the device has heard a word
  device.Attach();
  world.Runs(1);
  device.Listen();
  EXPECT_EQ(world.machine().stats().sessions_opened, 1u);
  EXPECT_EQ(world.machine().stats().running.prompt_tokens, 4u);
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

v1::Stops StopsOfAMegabyte() {
  v1::Stops stops;
  for (char first = '0'; first < '0' + 64; ++first)
    stops.add_strings(first + std::string(999, 'x'));
  return stops;
}

// A caller's sessions, detached ones too, keep no more than he may have of plain ones.
TEST(VerifierMachine, SessionsOfACallerKeepSoMuchTogether) {
  VerifierConfig config = SmallConfig();
  config.session_count_of_key_max = 50;
  config.bytes_of_sessions = 1 << 20;
  config.bytes_of_session = 64 << 10;
  VerifierWorld world(config);
  uint64_t nonce = 0;
  const auto open = [&](const v1::Stops& stops, std::string_view key = "key") {
    auto message = OpenOf(++nonce, "once");
    *message.mutable_open()->mutable_stops() = stops;
    const StreamNumber stream = world.Connect(key);
    world.Send(stream, message);
    world.Runs();
    return stream;
  };
  const auto is_open = [&](StreamNumber stream) { return !world.line(stream).ended; };

  for (int i = 0; i < 4; ++i) {
    const StreamNumber stream = open(StopsOfAMegabyte());
    EXPECT_TRUE(is_open(stream));
    world.Close(stream);
  }
  const StreamNumber refused = open(StopsOfAMegabyte());
  const v1::Fault fault = FaultOf(world, refused);
  EXPECT_EQ(fault.kind(), v1::Fault::OVERLOADED);
  EXPECT_EQ(fault.message(),
            "no room for another session: the sessions of this key may keep no more than 4 MiB of "
            "tokens, counts for penalties and stop strings; ask for a smaller length_max or for "
            "fewer of them, or end a session; come again in 1000 ms");
  EXPECT_TRUE(is_open(open(StopsOfAMegabyte(), "another")));
  const StreamNumber plain = open({});
  EXPECT_TRUE(is_open(plain)) << "who asks for nothing in particular has room";
  auto append = AppendOf(4, " upon");
  *append.mutable_append()->mutable_stops() = StopsOfAMegabyte();
  world.Send(plain, append);
  EXPECT_EQ(FaultOf(world, plain).kind(), v1::Fault::OVERLOADED);
  EXPECT_EQ(world.machine().session_count(), 5u);

  world.Pass(config.time_to_live);
  EXPECT_TRUE(is_open(open(StopsOfAMegabyte())));
}

// However many callers there are.
TEST(VerifierMachine, AllSessionsKeepSoMuchTogether) {
  VerifierConfig config = SmallConfig();
  config.session_count_max = config.session_count_of_key_max = 4;
  config.bytes_of_sessions = 2 << 20;
  config.bytes_of_session = 0;
  VerifierWorld world(config);
  auto open = OpenOf(1, "once");
  *open.mutable_open()->mutable_stops() = StopsOfAMegabyte();
  for (const char* const key : {"one", "two", "three"}) {
    const StreamNumber stream = world.Connect(key);
    world.Send(stream, open);
    EXPECT_EQ(world.line(stream).ended.has_value(), key == std::string_view("three")) << key;
    if (!world.line(stream).ended) continue;
    EXPECT_THAT(FaultOf(world, stream).message(),
                HasSubstr("the sessions of this server may keep"));
  }
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

// Who knows key and nonce, and says a higher attempt, is not the device: that one has a token, and
// has shown it.
TEST(VerifierMachine, AnOpenTakesNothingOverFromADeviceThatHasSpoken) {
  VerifierWorld world;
  const StreamNumber stream = OpenSession(world, 1, "once");
  world.Send(stream, GoOf(0));
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_attempt(1000);
  for (const bool is_attached : {true, false}) {
    if (!is_attached) world.Close(stream);
    const StreamNumber thief = world.Connect();
    world.Send(thief, open);
    world.Runs();
    EXPECT_EQ(FaultOf(world, thief).kind(), v1::Fault::MALFORMED) << is_attached;
    EXPECT_FALSE(world.line(stream).ended);
  }
}

TEST(VerifierMachine, AnOpenTakesNothingOverFromADeviceThatCameBack) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
  device.Attach();
  device.Listen();
  world.Runs();
  device.Break();
  device.Attach();  // with its token, and says nothing more
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_attempt(1000);
  const StreamNumber thief = world.Connect();
  world.Send(thief, open);
  EXPECT_EQ(FaultOf(world, thief).kind(), v1::Fault::MALFORMED);
  EXPECT_FALSE(world.line(device.stream()).ended);
}

// Places are promised before they are taken, so that no more is prepared than there is room for.
TEST(VerifierMachine, AnOpenIsWorthPreparingWhereItHasRoom) {
  using Work = Machine::Work;
  VerifierConfig config = SmallConfig();
  config.session_count_max = 8;
  config.session_count_of_key_max = 2;
  VerifierWorld world(config);
  const StreamNumber first = world.Connect();
  const StreamNumber second = world.Connect();
  const StreamNumber third = world.Connect();
  EXPECT_EQ(world.line(first).work, Work::kOpen);
  EXPECT_EQ(world.line(second).work, Work::kOpen);
  EXPECT_EQ(world.line(third).work, Work::kLittle) << "two places are kept";
  EXPECT_EQ(world.line(world.Connect("other")).work, Work::kOpen);
  world.Send(first, OpenOf(1, "once"));
  EXPECT_EQ(world.line(first).work, Work::kEdit);
  EXPECT_EQ(world.line(world.Connect()).work, Work::kLittle) << "one is taken, one is kept";
  world.Close(second);
  EXPECT_EQ(world.line(world.Connect()).work, Work::kOpen);
  world.Runs();
  // What was not prepared is refused, room or not; the same Open again needs nothing prepared.
  auto again = OpenOf(1, "once");
  again.mutable_open()->set_attempt(2);
  auto prepared = world.machine().Prepare(again, Work::kLittle);
  EXPECT_FALSE(prepared.sequence.has_value());
  world.Tell(Machine::Received{third, again, &prepared});
  EXPECT_FALSE(world.line(third).ended);
  world.Close(third);
  const StreamNumber last = world.Connect();
  prepared = world.machine().Prepare(OpenOf(2, "once"), Work::kLittle);
  world.Tell(Machine::Received{last, OpenOf(2, "once"), &prepared});
  EXPECT_EQ(FaultOf(world, last).kind(), v1::Fault::OVERLOADED);
}

TEST(VerifierMachine, AnOpenBeyondItsRateIsNotPrepared) {
  VerifierConfig config = SmallConfig();
  config.opens_per_minute = 2;
  VerifierWorld world(config);
  for (uint64_t nonce = 1; nonce <= 2; ++nonce) {
    const StreamNumber stream = world.Connect("", "here");
    EXPECT_EQ(world.line(stream).work, Machine::Work::kOpen);
    world.Send(stream, OpenOf(nonce, "once"));
  }
  EXPECT_EQ(world.line(world.Connect("", "here")).work, Machine::Work::kLittle);
  EXPECT_EQ(world.line(world.Connect("", "there")).work, Machine::Work::kOpen);
  world.Pass(std::chrono::seconds(31));
  EXPECT_EQ(world.line(world.Connect("", "here")).work, Machine::Work::kOpen);
}

// --- callers without keys ---

TEST(VerifierMachine, AnAddressWithoutAKeyHasAQuarterOfAllSessions) {
  VerifierConfig config = SmallConfig();
  config.session_count_max = 8;
  VerifierWorld world(config);
  const auto opens = [&](uint64_t nonce, std::string_view origin) {
    const StreamNumber stream = world.Connect("", origin);
    world.Send(stream, OpenOf(nonce, "once"));
    return !world.line(stream).ended;
  };
  EXPECT_TRUE(opens(1, "here"));
  EXPECT_TRUE(opens(2, "here"));
  EXPECT_FALSE(opens(3, "here"));
  EXPECT_TRUE(opens(1, "there")) << "a nonce is one address's, too";
  EXPECT_TRUE(opens(2, "there"));
  EXPECT_EQ(world.machine().session_count(), 4u);
}

TEST(VerifierMachine, WhoeverFindsNoRoomIsToldByWhichLimit) {
  VerifierConfig config = SmallConfig();
  config.session_count_max = 5;
  config.session_count_of_key_max = 3;
  config.page_groups = {{.page_count = 4 * kPagesOfOne}};
  VerifierWorld world(config);
  uint64_t nonce = 0;
  bool is_own = false;  // the last limit, and not all callers'
  const auto why = [&](std::string_view key, std::string_view origin, CallerTerms terms = {},
                       uint32_t length_max = 0) -> std::string {
    const StreamNumber stream = world.Connect(key, origin, terms);
    auto open = OpenOf(++nonce, "once");
    open.mutable_open()->set_length_max(length_max);
    world.Send(stream, open);
    if (!world.line(stream).ended) return "";
    EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::OVERLOADED);
    is_own = IsOfOwnLimit(*world.line(stream).ended);
    return FaultOf(world, stream).message();
  };
  EXPECT_EQ(why("one", "", {.sessions_max = 1}), "");
  EXPECT_EQ(
      why("one", "", {.sessions_max = 1}),
      "no room for another session: this key may have no more than 1 at a time; come again in "
      "1000 ms");
  EXPECT_TRUE(is_own);
  EXPECT_EQ(why("seldom", "", {.opens_per_minute = 1}), "");
  EXPECT_THAT(why("seldom", "", {.opens_per_minute = 1}),
              HasSubstr("this key may open no more than 1 a minute"));
  EXPECT_TRUE(is_own);
  EXPECT_EQ(why("", "here"), "");
  EXPECT_EQ(why("", "here", {}, 60), "");
  EXPECT_THAT(why("", "here"), HasSubstr("all of the target's memory is in use"));
  EXPECT_FALSE(is_own);
  EXPECT_EQ(why("", "here", {}, 60), "");
  EXPECT_THAT(why("", "here"), HasSubstr("this address may have no more than 3 at a time"));
  EXPECT_TRUE(is_own);
  EXPECT_THAT(why("", "there"), HasSubstr("this server may have no more than 5 at a time"));
  EXPECT_FALSE(is_own);
}

TEST(VerifierMachine, AddressesWithoutAKeyShareTheTargetAndNoPrompts) {
  VerifierConfig config = SmallConfig();
  config.scheduler.row_count_max = config.scheduler.first_row_count = 2;
  VerifierWorld world(config);
  const std::string prompt(2 * kPageTokens + 3, 'x');
  std::vector<StreamNumber> crowd;
  const auto open = [&](uint64_t nonce, std::string_view origin) {
    const StreamNumber stream = world.Connect("", origin);
    world.Send(stream, OpenOf(nonce, prompt, v1::DRY_POLICY_ALONE));
    return stream;
  };
  const StreamNumber alone = open(1, "there");
  world.Runs(3);
  crowd.push_back(open(1, "here"));
  EXPECT_EQ(world.machine().stats().shared_tokens, 0u) << "that it is at the target tells nothing";
  world.Runs(3);
  for (uint64_t nonce = 2; nonce <= 5; ++nonce) crowd.push_back(open(nonce, "here"));
  EXPECT_GT(world.machine().stats().shared_tokens, 0u) << "its own are";
  world.Runs(20);
  world.News(alone);
  for (const StreamNumber stream : crowd) world.News(stream);
  world.Runs(60);
  size_t of_crowd = 0;
  for (const StreamNumber stream : crowd) of_crowd += VerdictsOf(world.News(stream)).size();
  EXPECT_NEAR(static_cast<double>(VerdictsOf(world.News(alone)).size()),
              static_cast<double>(of_crowd), 4);
}

TEST(VerifierMachine, KeysHaveTheTargetsTimeByTheirShares) {
  VerifierConfig config = SmallConfig();
  config.scheduler.row_count_max = config.scheduler.first_row_count = 4;
  VerifierWorld world(config);
  std::map<StreamNumber, uint32_t> share_of;
  for (uint64_t nonce = 1; nonce <= 4; ++nonce) {
    for (const uint32_t share : {1, 3}) {
      const StreamNumber stream =
          world.Connect(share == 1 ? "one" : "three", "", CallerTerms{.share = share});
      world.Send(stream, OpenOf(nonce, "once", v1::DRY_POLICY_ALONE));
      share_of[stream] = share;
    }
  }
  world.Runs(20);
  for (const auto& [stream, share] : share_of) world.News(stream);
  world.Runs(150);
  std::map<uint32_t, double> passes;
  for (const auto& [stream, share] : share_of) {
    passes[share] += static_cast<double>(VerdictsOf(world.News(stream)).size());
  }
  EXPECT_GT(passes[1], 100);
  EXPECT_NEAR(passes[3] / passes[1], 3, 0.1);
}

TEST(VerifierMachine, AResumeThatComesLateFencesNobody) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
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
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
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
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
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
  EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", 7)));
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(ScriptedText(Tokens("once"), 7).back()));
}

TEST(VerifierMachine, ADeviceWithOtherTokensHasDrifted) {
  VerifierWorld world;
  GrowingDevice device(world, "key", OpenOf(1, "once"));
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
  GrowingDevice device(world, "key", OpenOf(1, "once"));
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
  GrowingDevice device(world, "key", OpenOf(1, "once", v1::DRY_POLICY_ALONE));
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
  GrowingDevice device_;
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

}  // namespace
}  // namespace outrider
