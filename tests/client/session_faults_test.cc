// A session whose server, stream or drafter fails it, and how it takes its leave.
#include <algorithm>
#include <chrono>
#include <string>

#include "client/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/session_script.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(ScriptTest, ASessionThatTakesNoNodesIsNone) {
  Begin();
  TakeUp();
  v1::ServerMessage message;
  message.mutable_opened()->set_session("name");
  message.mutable_opened()->set_token("token");
  Down(message);
  EXPECT_EQ(closed_, 1);
  EXPECT_FALSE(end_);
}

TEST_F(ScriptTest, AnOverloadedVerifierIsAskedAgainWhenItSays) {
  SessionOptions options;
  options.link.first_patience = seconds(60);
  Begin(options);
  TakeUp();
  Fault(v1::Fault::OVERLOADED, "full", 5000);
  EXPECT_GE(timer_ - now_, milliseconds(5000));
  EXPECT_LE(timer_ - now_, milliseconds(5050));
  EXPECT_FALSE(end_);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_open());
}

TEST_F(ScriptTest, FaultsThatNothingCanMendEndTheSessionInTheirWords) {
  const auto ends = [&](v1::Fault::Kind kind, absl::StatusCode code) {
    BeginAttached();
    end_.reset();
    Fault(kind, "so it is");
    ASSERT_TRUE(end_);
    EXPECT_EQ(end_->code(), code);
    EXPECT_THAT(std::string(Message(*end_)), HasSubstr("so it is"));
    EXPECT_TRUE(session_->ended());
    up_.clear();
  };
  ends(v1::Fault::MISMATCH, absl::StatusCode::kFailedPrecondition);
  ends(v1::Fault::MALFORMED, absl::StatusCode::kInvalidArgument);
  ends(v1::Fault::SUPERSEDED, absl::StatusCode::kAborted);
  ends(v1::Fault::TARGET, absl::StatusCode::kInternal);
  ends(static_cast<v1::Fault::Kind>(77), absl::StatusCode::kUnknown);
}

TEST_F(ScriptTest, BackOffGrowsAndPatienceEnds) {
  Begin();
  Duration least = milliseconds(25);
  for (int attempt = 0; !end_; ++attempt) {
    ASSERT_LT(attempt, 30);
    up_.clear();
    const MonotonicTime before = now_;
    Lose();
    if (end_) break;
    EXPECT_GE(timer_ - before, least) << attempt;
    EXPECT_LE(timer_ - before, 2 * least) << attempt;
    least = std::min<Duration>(2 * least, milliseconds(2500));
    AwaitRetry();
  }
  EXPECT_EQ(end_->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(*end_)), HasSubstr("no route"));
  EXPECT_LE(now_.time_since_epoch(), seconds(5));
}

TEST_F(ScriptTest, AVerifierThatDoesNotAnswerIsLeft) {
  Begin();
  TakeUp();
  Wait(seconds(19));
  EXPECT_EQ(closed_, 0);
  Wait(seconds(2));
  EXPECT_EQ(closed_, 1);
  EXPECT_TRUE(end_);  // patience was shorter

  SessionOptions options;
  options.link.first_patience = seconds(100);
  end_.reset();
  up_.clear();
  Begin(options);
  TakeUp();
  Wait(seconds(21));
  EXPECT_FALSE(end_);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_open());
}

TEST_F(ScriptTest, AVerifierThatIsSilentIsAskedAgain) {
  BeginAttached();
  SendChain("xyz");
  Wait(seconds(59));
  EXPECT_EQ(closed_, 0);
  v1::ServerMessage progress;
  progress.mutable_progress()->set_total(7);
  Down(progress);
  Wait(seconds(59));
  EXPECT_EQ(closed_, 0);
  Wait(seconds(2));
  EXPECT_EQ(closed_, 1);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_resume());
}

TEST_F(ScriptTest, StatusesThatNothingCanMendEndTheSession) {
  Begin();
  Handle(Session::StreamDown{stream_, absl::UnauthenticatedError("no key")});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(ScriptTest, StreamsOfThePastAreNotHeard) {
  BeginAttached();
  const uint64_t old = stream_;
  Lose();
  up_.clear();
  AwaitRetry();
  ASSERT_NE(stream_, old);
  const v1::ServerMessage verdict = VerdictMessage(0, "", 'x');
  Handle(Session::Received{old, verdict});
  Handle(Session::Written{old});
  Handle(Session::StreamDown{old, absl::UnavailableError("late")});
  EXPECT_EQ(Committed(), Tokens("abc"));
  EXPECT_FALSE(end_);
}

TEST_F(ScriptTest, ADraftOfThePastIsPassedOver) {
  BeginAttached();
  const uint64_t batch = batch_;
  const Proposal proposal = {'x', 0.9};
  const std::span<const Proposal> children(&proposal, 1);
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  Handle(Session::Drafted{batch + 7, {&children, 1}, absl::OkStatus()});  // never asked for
  Handle(Session::Drafted{batch, {&children, 1}, absl::OkStatus()});      // of the reply before
  EXPECT_NE(batch_, batch);  // the new one was asked for
  TakeUp();
  TakeUp();
  const Grow grow = SendChain("uvw");
  EXPECT_EQ(NodesOf(grow.nodes())[0].token, static_cast<uint32_t>('u'));
}

TEST_F(ScriptTest, AFailingDrafterIsReportedOnceAndTheTargetWritesOn) {
  BeginAttached();
  Handle(Session::Drafted{batch_, {}, absl::ResourceExhaustedError("no room")});
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("no room"));
  const Grow grow = TakeUp().grow();
  EXPECT_TRUE(grow.go());
  EXPECT_TRUE(NodesOf(grow.nodes()).empty());
  Down(VerdictMessage(0, "", 'x'));
  Handle(Session::Drafted{batch_, {}, absl::ResourceExhaustedError("no room")});
  EXPECT_EQ(reports_.size(), 1u);
  EXPECT_TRUE(TakeUp().grow().go());
}

TEST_F(ScriptTest, FarewellIsSaidAndAwaitedButNotForEver) {
  BeginAttached();
  Handle(Session::UserClose{});
  EXPECT_TRUE(TakeUp().has_close());
  EXPECT_FALSE(end_);
  Handle(Session::StreamDown{stream_, absl::OkStatus()});
  ASSERT_TRUE(end_);
  EXPECT_TRUE(end_->ok());

  end_.reset();
  BeginAttached();
  Handle(Session::UserClose{});
  Wait(seconds(3));
  ASSERT_TRUE(end_);
  EXPECT_TRUE(end_->ok());
}

}  // namespace
}  // namespace outrider
