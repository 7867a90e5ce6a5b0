// What the target has of a session, through commits, edits and loss.
#include "common/verification/machine/sequence_at_target.h"

#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr SequenceId kFirst{1};
const std::vector<TokenId> kTokens(100, 'a');

std::span<const TokenId> Tokens(size_t from, size_t count) {
  return std::span<const TokenId>(kTokens).subspan(from, count);
}

// One that has read so many tokens.
SequenceAtTarget Read(uint32_t count) {
  SequenceAtTarget at_target;
  TargetWork work{};
  at_target.BeginWork(Tokens(0, count), {}, work);
  work.sequence = kFirst;
  at_target.EndWork(work);
  at_target.PromptRead(count, count);
  return at_target;
}

TEST(SequenceAtTarget, ReadingIsOverWhenAllIsRead) {
  SequenceAtTarget at_target;
  TargetWork work{};
  at_target.BeginWork(Tokens(0, 6), MonotonicTime(Duration(7)), work);
  EXPECT_TRUE(at_target.in_run());
  work.sequence = kFirst;
  at_target.EndWork(work);
  at_target.PromptRead(6, 10);
  ASSERT_TRUE(at_target.reading().has_value());
  EXPECT_EQ(at_target.reading()->begin, 0u);
  at_target.BeginWork(Tokens(6, 4), MonotonicTime(Duration(9)), work);
  EXPECT_EQ(work.sequence, kFirst);
  at_target.EndWork(work);
  EXPECT_EQ(at_target.reading()->since, MonotonicTime(Duration(7)));
  at_target.PromptRead(4, 10);
  EXPECT_FALSE(at_target.reading().has_value());
  EXPECT_EQ(at_target.read_count(), 10u);
}

TEST(SequenceAtTarget, CommitsAndTruncationsAreToldOnceWithTheNextRun) {
  SequenceAtTarget at_target = Read(10);
  at_target.PassCommitted({DraftedNode::kRoot, 'x'}, 11);
  at_target.Truncate(20);  // nothing of it is there
  at_target.Truncate(4);
  EXPECT_EQ(at_target.read_count(), 4u);
  TargetWork work{};
  at_target.BeginWork({}, {}, work);
  ASSERT_TRUE(work.commit.has_value());
  EXPECT_EQ(work.commit->next, 'x');
  EXPECT_EQ(work.truncate_to, 4u);
  at_target.EndWork(work);
  TargetWork next{};
  at_target.BeginWork({}, {}, next);
  EXPECT_FALSE(next.commit || next.truncate_to);
}

TEST(SequenceAtTarget, WhatIsForgottenIsReadAgain) {
  SequenceAtTarget at_target = Read(10);
  at_target.PassCommitted({DraftedNode::kRoot, 'x'}, 11);
  EXPECT_EQ(at_target.Forget(), kFirst);
  EXPECT_FALSE(at_target.exists());
  EXPECT_EQ(at_target.read_count(), 0u);
  TargetWork work{};
  at_target.BeginWork(Tokens(0, 11), {}, work);
  EXPECT_FALSE(work.sequence || work.commit || work.truncate_to);
  EXPECT_EQ(work.prompt.size(), 11u);
}

}  // namespace
}  // namespace outrider
