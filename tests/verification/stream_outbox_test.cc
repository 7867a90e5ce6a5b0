#include "common/verification/machine/stream_outbox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using Kind = v1::ServerMessage::KindCase;
using std::chrono::microseconds;

constexpr MonotonicTime kNow{std::chrono::seconds(5)};

// Everything that waits, in the order it is written.
std::vector<Kind> WriteAll(StreamOutbox& outbox) {
  std::vector<Kind> kinds;
  while (const v1::ServerMessage* message = outbox.Next(kNow)) {
    kinds.push_back(message->kind_case());
    outbox.Written();
  }
  return kinds;
}

v1::Hint HintOf(uint32_t verdict, uint32_t next, uint32_t probability) {
  v1::Hint hint;
  hint.set_verdict(verdict);
  hint.set_next(next);
  hint.set_probability(probability);
  return hint;
}

TEST(StreamOutbox, WhatDecidesGoesFirst) {
  StreamOutbox outbox(2);
  outbox.SetProgress();
  outbox.AddHint(HintOf(2, 5, 100), 1);
  outbox.SetDraining();
  outbox.AddOpened();
  EXPECT_THAT(WriteAll(outbox),
              ElementsAre(Kind::kOpened, Kind::kDraining, Kind::kHint, Kind::kProgress));
}

TEST(StreamOutbox, VerdictsGoInOrderAndAFaultComesLast) {
  StreamOutbox outbox(3);
  for (uint32_t number = 1; number <= 3; ++number) outbox.AddVerdict({}).set_next(number);
  outbox.SetDraining();
  outbox.AddFault();
  for (uint32_t number = 1; number <= 3; ++number) {
    const v1::ServerMessage* message = outbox.Next(kNow);
    ASSERT_TRUE(message && message->has_verdict());
    EXPECT_EQ(message->verdict().next(), number);
    outbox.Written();
  }
  EXPECT_THAT(WriteAll(outbox), ElementsAre(Kind::kFault));
}

TEST(StreamOutbox, OneMessageIsWrittenAtATime) {
  StreamOutbox outbox(2);
  outbox.AddVerdict({}).set_next(1);
  outbox.AddVerdict({}).set_next(2);
  const v1::ServerMessage* first = outbox.Next(kNow);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(outbox.Next(kNow), nullptr);
  outbox.AddVerdict({}).set_next(3);
  EXPECT_EQ(first->verdict().next(), 1u);  // as it was
  EXPECT_EQ(outbox.unread_verdict_count(), 3u);
  outbox.Written();
  EXPECT_EQ(outbox.unread_verdict_count(), 2u);
}

TEST(StreamOutbox, HintsGoByTheirRank) {
  StreamOutbox outbox(1);
  EXPECT_TRUE(outbox.AddHint(HintOf(1, 5, 100), 100));
  EXPECT_TRUE(outbox.AddHint(HintOf(1, 6, 120), 120));
  for (const uint32_t next : {6u, 5u}) {
    const v1::ServerMessage* message = outbox.Next(kNow);
    ASSERT_TRUE(message && message->has_hint());
    EXPECT_EQ(message->hint().next(), next);
    outbox.Written();
  }
  EXPECT_TRUE(outbox.empty());
}

TEST(StreamOutbox, AVerdictOvertakesHintsAndProgress) {
  StreamOutbox outbox(1);
  outbox.AddHint(HintOf(1, 5, 100), 1);
  outbox.AddHint(HintOf(1, 6, 100), 1);
  outbox.SetProgress();
  outbox.AddVerdict({});
  EXPECT_THAT(WriteAll(outbox), ElementsAre(Kind::kVerdict));
  EXPECT_EQ(outbox.hints_overtaken(), 2u);
}

TEST(StreamOutbox, AVerdictTellsHowOldItsNewestNodeIsWhenItLeaves) {
  StreamOutbox outbox(2);
  outbox.AddVerdict(kNow - microseconds(1500)).set_nodes(7);
  outbox.AddVerdict({});
  const v1::ServerMessage* message = outbox.Next(kNow + microseconds(500));
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->verdict().since_seen_us(), 2000u);
  EXPECT_EQ(message->verdict().nodes(), 7u);
  outbox.Written();
  message = outbox.Next(kNow);
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->verdict().since_seen_us(), 0u);
}

TEST(StreamOutbox, APlaceIsEmptyWhenItIsFilledAgain) {
  StreamOutbox outbox(1);
  outbox.AddVerdict({}).set_finish(v1::FINISH_END_TOKEN);
  EXPECT_THAT(WriteAll(outbox), ElementsAre(Kind::kVerdict));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(outbox.AddVerdict({}).finish(), v1::FINISH_NONE);
    WriteAll(outbox);
  }
}

}  // namespace
}  // namespace outrider
