// Appended and truncated tokens, of the reply and around it.
#include "absl/status/status.h"
#include "common/verification/verdict_message.h"
#include "common/verification/verified_sequence.h"
#include "gtest/gtest.h"
#include "tests/verification/sequence_messages.h"

namespace outrider::verified {
namespace {

TEST(VerifiedSequence, ATurnBeginsAReplyWithLimitsOfItsOwn) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  const auto sequence = Make(open);
  RunPass(*sequence, "a");
  EXPECT_EQ(RunPass(*sequence, "b").finish(), v1::FINISH_TOKEN_LIMIT);
  ASSERT_TRUE(sequence->Append(AppendOf(6, " upon", false)).ok());
  EXPECT_EQ(sequence->finish(), v1::FINISH_NONE);
  RunPass(*sequence, "c");
  EXPECT_EQ(RunPass(*sequence, "d").finish(), v1::FINISH_TOKEN_LIMIT);  // the stops stay
  v1::Append append = AppendOf(13, "!", false);
  append.mutable_stops()->set_max_tokens(1);
  ASSERT_TRUE(sequence->Append(append).ok());
  const v1::Verdict verdict = RunPass(*sequence, "e");
  EXPECT_EQ(verdict.finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(verdict.edits(), 1u);  // since the one before
  EXPECT_EQ(TextOf(*sequence), "onceab uponcd!e");
}

TEST(VerifiedSequence, TokensOfARunningReplyCountAsIfTheyHadBeenWrittenHere) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(3);
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_EQ(RunPass(*sequence, "c").finish(), v1::FINISH_TOKEN_LIMIT);

  v1::Open reopened = OpenOf("onceab");
  reopened.mutable_stops()->set_max_tokens(3);
  reopened.set_reply_tokens(2);
  const auto again = Make(reopened);
  EXPECT_EQ(again->history().reply_begin(), 4u);
  EXPECT_EQ(RunPass(*again, "c").finish(), v1::FINISH_TOKEN_LIMIT);
}

TEST(VerifiedSequence, AReplyDoesNotGoOnPastItsEnd) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abc", true))),
            "the reply ends at its token 2, and 3 go on past it");
  const auto ended = Make(open);
  ASSERT_TRUE(ended->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_EQ(ended->finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(Error(ended->Append(AppendOf(6, "c", true))),
            "the reply has ended, and 1 more tokens of it came");
  open.set_reply_tokens(4);
  EXPECT_EQ(Error(VerifiedSequence::Create(open, Bytes(), kLimits).status()),
            "the reply ends at its token 2, and 4 go on past it");
}

TEST(VerifiedSequence, WhatDoesNotFitIsNotAppended) {
  v1::Open open = OpenOf("once");
  open.set_length_max(8);
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abcde", false))),
            "5 more tokens do not fit: the session has 4 of 8");
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abcdef", true))),
            "6 tokens of the reply do not fit: the session has 4 of 8");
  const auto full = Make(open);
  ASSERT_TRUE(full->Append(AppendOf(4, "abcde", true)).ok());  // the last is never read
  EXPECT_EQ(full->finish(), v1::FINISH_LENGTH);
}

TEST(VerifiedSequence, BadEditsAreRefused) {
  v1::Append append = AppendOf(4, "a", true);
  append.mutable_stops();
  EXPECT_EQ(Error(Make("once")->Append(append)),
            "tokens of a running reply cannot change its stops");
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("once")->Append(AppendOf(5, "a", false))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("once")->Truncate(TruncateOf(5))));
  for (const bool reply : {false, true}) {
    const auto empty = Make("once");
    ASSERT_TRUE(empty->Truncate(TruncateOf(0)).ok());
    EXPECT_FALSE(empty->writing());
    EXPECT_EQ(Error(empty->Append(AppendOf(0, "", reply))),
              "a reply cannot begin without a token before it");
  }
}

TEST(VerifiedSequence, ATruncatedReplyGoesOnAsIfTheRestHadNotBeen) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(4);
  open.mutable_stops()->add_strings("xyz");
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Append(AppendOf(4, "axb", true)).ok());
  ASSERT_TRUE(sequence->Truncate(TruncateOf(6)).ok());
  EXPECT_FALSE(sequence->writing());  // until the Append
  ASSERT_TRUE(sequence->Append(AppendOf(6, "", true)).ok());
  EXPECT_TRUE(sequence->writing());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "y")).ok());
  const v1::Verdict verdict = RunPass(*sequence, "yz");
  EXPECT_EQ(verdict.finish(), v1::FINISH_STOP_STRING);  // a, and across the cut x, y, z
  EXPECT_EQ(verdict.edits(), 3u);
}

TEST(VerifiedSequence, AnEditLeavesNothingOfTheDraft) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "ab")).ok());
  ASSERT_TRUE(sequence->Append(AppendOf(5, "x", true)).ok());
  EXPECT_EQ(sequence->node_count(), 0u);
  // Ids begin anew, and `seen` of before is the edit's root.
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "c")).ok());
  const v1::Verdict verdict = RunPass(*sequence, "cd");
  EXPECT_EQ(LeafOf(verdict), 1u);
  EXPECT_EQ(TextOf(*sequence), "onceaxcd");
}

}  // namespace
}  // namespace outrider::verified
