// A session whose tokens are not those that the server has: turns, what was written alone, what was
// lost with a link.
#include <string>

#include "client/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/session_script.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST_F(ScriptTest, ANextTurnIsAppendedAndGrowthBeginsAnew) {
  BeginAttached();
  SendChain("xyz");
  v1::ServerMessage verdict = VerdictMessage(1, "x", 'q');
  verdict.mutable_verdict()->set_finish(v1::FINISH_LENGTH);
  Down(verdict);
  up_.clear();
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  const v1::Append append = TakeUp().append();
  EXPECT_EQ(append.length(), 5u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_FALSE(append.reply());
  EXPECT_TRUE(append.has_stops());
  const Grow grow = SendChain("uvw");
  EXPECT_EQ(grow.first_id(), 1u);
  EXPECT_EQ(grow.seen(), 1u);
  verdict = VerdictMessage(1, "u", 'p');
  verdict.mutable_verdict()->set_edits(1);
  Down(verdict);
  EXPECT_EQ(Committed(), Tokens("abcxqhiup"));
}

TEST_F(ScriptTest, VerdictsThatCrossedAnEditArePassedOver) {
  BeginAttached();
  SendChain("xyz");
  const v1::ServerMessage crossed = VerdictMessage(2, "xy", 'q');
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  EXPECT_EQ(TakeUp().truncate().length(), 3u);
  EXPECT_EQ(TakeUp().append().length(), 3u);
  Down(crossed);
  EXPECT_EQ(Committed(), Tokens("abchi"));
  EXPECT_EQ(closed_, 0);
  v1::ServerMessage verdict = VerdictMessage(0, "", 'o');
  verdict.mutable_verdict()->set_edits(2);
  Down(verdict);
  EXPECT_EQ(Committed(), Tokens("abchio"));
}

TEST_F(ScriptTest, EditsThatWereLostAreToldWhenItAttaches) {
  BeginAttached();
  Down(VerdictMessage(0, "", 'x'));
  up_.clear();
  Handle(Session::Written{stream_});
  up_.clear();
  Handle(Session::UserTruncate{2});
  const auto turn = Tokens("uv");
  Handle(Session::UserAppend{turn});
  Lose();  // and with it what was being written
  up_.clear();
  AwaitRetry();
  const v1::Resume resume = TakeUp().resume();
  EXPECT_EQ(resume.length(), 2u);  // what no edit has touched
  EXPECT_EQ(resume.hash(), HashOf(Tokens("ab")));
  Down(ResumedMessage(Tokens("abcx"), 2));
  EXPECT_EQ(TakeUp().truncate().length(), 2u);
  const v1::Append append = TakeUp().append();
  EXPECT_EQ(append.length(), 2u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_EQ(Committed(), Tokens("abuv"));
}

TEST_F(ScriptTest, WhatWasWrittenAloneIsAppended) {
  BeginAttached();
  Lose();
  up_.clear();
  const auto alone = Tokens("xy");
  Handle(Session::WroteAlone{alone, v1::FINISH_NONE});
  EXPECT_EQ(text_, "xy");
  AwaitRetry();
  EXPECT_EQ(TakeUp().resume().length(), 5u);
  Down(ResumedMessage(Tokens("abc"), 3));
  const v1::Append append = TakeUp().append();
  EXPECT_TRUE(append.reply());
  EXPECT_EQ(append.length(), 3u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_FALSE(append.has_stops());
}

TEST_F(ScriptTest, WhatTheServerHasMoreOfIsCommitted) {
  BeginAttached();
  Down(VerdictMessage(0, "", 'x'));
  Lose();
  up_.clear();
  AwaitRetry();
  TakeUp();
  verdicts_ = 4;
  Down(ResumedMessage(Tokens("abcxpq"), 4));
  EXPECT_EQ(text_, "xpq");
  Down(VerdictMessage(0, "", 'r'));
  EXPECT_EQ(text_, "xpqr");
}

// Its last verdict was lost, or the context was full when nothing more came.
TEST_F(ScriptTest, AReplyThatEndedMeanwhileHasEnded) {
  for (const v1::Finish finish : {v1::FINISH_END_TOKEN, v1::FINISH_LENGTH}) {
    BeginAttached();
    Lose();
    up_.clear();
    AwaitRetry();
    TakeUp();
    v1::ServerMessage message = ResumedMessage(Tokens("abc"), 3);
    message.mutable_resumed()->set_finish(finish);
    Down(message);
    EXPECT_FALSE(session_->replying());
    EXPECT_EQ(finish_, finish);
    EXPECT_EQ(Committed(), Tokens("abc"));
    up_.clear();
  }
}

TEST_F(ScriptTest, WhatWasDraftedMeanwhileIsSentInTheNewEpoch) {
  BeginAttached();
  SendChain("xyz");
  Lose();
  AwaitRetry();
  TakeUp();
  Down(ResumedMessage(Tokens("abc"), 3));
  const Grow grow = TakeUp().grow();
  EXPECT_EQ(grow.first_id(), 1u);
  EXPECT_EQ(NodesOf(grow.nodes()).size(), 3u);
}

TEST_F(ScriptTest, AVerifierThatHasForgottenItIsToldTheReplySoFar) {
  SessionOptions options;
  options.stops.max_tokens = 3;
  BeginAttached(options);
  Down(VerdictMessage(0, "", 'x'));
  up_.clear();
  Handle(Session::Written{stream_});
  up_.clear();
  Fault(v1::Fault::UNKNOWN_SESSION, "who?");
  const v1::Open open = TakeUp().open();
  EXPECT_EQ(open.prompt(0).tokens().ids_size(), 4);
  EXPECT_EQ(open.reply_tokens(), 1u);
  EXPECT_EQ(open.stops().max_tokens(), 3u);
  EXPECT_EQ(session_->stats().reopenings, 1u);
  // Its target may be another one, and then that is said.
  numerics_id_ = "another";
  Opened();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("from numerics id one to another"));
  verdicts_ = 0;
  Down(VerdictMessage(0, "", 'y'));
  EXPECT_EQ(text_, "xy");
}

TEST_F(ScriptTest, TurnsThatDoNotFitAreRefusedAndTheSessionGoesOn) {
  SessionOptions options;
  options.length_max = 8;
  BeginAttached(options);
  const auto long_turn = Tokens("123456");
  Handle(Session::UserAppend{long_turn});
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("does not fit"));
  Handle(Session::UserAppend{{}});
  EXPECT_EQ(reports_.size(), 2u);
  Handle(Session::UserTruncate{9});
  EXPECT_EQ(reports_.size(), 3u);
  EXPECT_TRUE(session_->replying());
}

}  // namespace
}  // namespace outrider
