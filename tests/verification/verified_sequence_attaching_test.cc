// A device that comes back: what it lacks, what it is ahead with, and drift.
#include "absl/status/status.h"
#include "common/verification/verified_sequence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/sequence_messages.h"

namespace outrider::verified {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Resume ResumeOf(const VerifiedSequence& sequence, uint32_t length) {
  v1::Resume resume;
  resume.set_length(length);
  resume.set_hash(sequence.history().HashAt(length));
  return resume;
}

TEST(VerifiedSequence, ADeviceThatIsBehindGetsWhatItLacks) {
  const auto sequence = Make("once");
  for (const char* token : {"a", "b", "c"}) RunPass(*sequence, token);
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 5), resumed).ok());
  EXPECT_THAT(resumed.tokens(), ElementsAre('b', 'c'));
  EXPECT_EQ(resumed.length(), 7u);
  EXPECT_EQ(resumed.hash(), sequence->history().hash());
  EXPECT_EQ(resumed.verdict(), 3u);
  EXPECT_EQ(resumed.finish(), v1::FINISH_NONE);
  EXPECT_TRUE(sequence->writing());
  ASSERT_TRUE(sequence->Grow(ChainOf(3, 1, "d")).ok());  // ids begin anew
}

TEST(VerifiedSequence, ADeviceThatIsAheadIsWaitedFor) {
  const auto sequence = Make("once");
  v1::Resume resume;
  resume.set_length(6);
  resume.set_hash(1234);  // of tokens that are not known here
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(resume, resumed).ok());
  EXPECT_THAT(resumed.tokens(), IsEmpty());
  EXPECT_EQ(resumed.length(), 4u);
  EXPECT_FALSE(sequence->writing());
  ASSERT_TRUE(sequence->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_TRUE(sequence->writing());
  // Whoever comes next need not be ahead.
  resume.set_length(7);
  ASSERT_TRUE(sequence->Resume(resume, resumed).ok());
  EXPECT_FALSE(sequence->writing());
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 6), resumed).ok());
  EXPECT_TRUE(sequence->writing());
}

TEST(VerifiedSequence, ATruncatedSequenceWaitsForItsAppendThroughALostLink) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Truncate(TruncateOf(3)).ok());
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 3), resumed).ok());
  EXPECT_EQ(resumed.edits(), 1u);
  EXPECT_FALSE(sequence->writing());
}

TEST(VerifiedSequence, OtherTokensAreDrift) {
  const auto sequence = Make("once");
  v1::Resume resume = ResumeOf(*sequence, 3);
  resume.set_hash(resume.hash() ^ 1);
  v1::Resumed resumed;
  EXPECT_TRUE(absl::IsFailedPrecondition(sequence->Resume(resume, resumed)));
}

TEST(VerifiedSequence, ARepeatedOpenIsToldWhatWasWrittenSinceTheFirst) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  const auto sequence = Make(open);
  v1::Opened first;
  ASSERT_TRUE(sequence->Attach(first).ok());
  EXPECT_THAT(first.tokens(), IsEmpty());
  for (const char* token : {"a", "b"}) RunPass(*sequence, token);
  v1::Opened second;
  ASSERT_TRUE(sequence->Attach(second).ok());
  EXPECT_THAT(second.tokens(), ElementsAre('a', 'b'));
  EXPECT_EQ(second.finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(second.verdict(), 2u);
  ASSERT_TRUE(sequence->Append(AppendOf(6, "x", false)).ok());
  EXPECT_THAT(Error(sequence->Attach(second)), HasSubstr("needs a new nonce"));
}

}  // namespace
}  // namespace outrider::verified
