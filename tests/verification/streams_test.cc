// Streams by themselves: what they are asked for, how they end and how long they may be silent.
#include "common/verification/machine/streams.h"

#include <algorithm>
#include <optional>

#include "gtest/gtest.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using std::chrono::seconds;
using Events = VerifierEvents;

struct Held {
  Held() { moment.actions = &actions; }

  VerifierStream& Open(uint64_t number) {
    streams.Open(number, callers.Of("key"), nullptr);
    return *streams.Find(number);
  }
  void Advance(Duration time) { moment.now += time; }
  // The last action, if it is of this kind.
  template <typename Kind>
  const Kind* Last() const {
    return actions.empty() ? nullptr : std::get_if<Kind>(&actions.back());
  }

  std::vector<Events::Action> actions;
  Moment moment;
  Callers callers;
  Streams streams{{.stream_count_max = 2,
                   .unread_verdicts_max = 2,
                   .messages_per_second = 1000,
                   .first_message_max = seconds(10),
                   .silence_max = seconds(100),
                   .write_max = seconds(30),
                   .retry_after = seconds(1)},
                  moment};
};

TEST(Streams, PlacesAreKeptForNewOnesUntilTheySpeakOrEnd) {
  Held held;
  VerifierStream& first = held.Open(1);
  VerifierStream& second = held.Open(2);
  for (VerifierStream* const stream : {&first, &first, &second}) held.streams.KeepPlace(*stream);
  EXPECT_EQ(held.streams.places_kept(), 2u);
  EXPECT_EQ(first.caller.places_kept, 2u);
  held.streams.FreePlace(first);
  held.streams.FreePlace(first);
  EXPECT_EQ(held.streams.places_kept(), 1u);
  held.streams.End(second, absl::OkStatus());
  EXPECT_EQ(held.streams.places_kept(), 0u);
  EXPECT_EQ(first.caller.places_kept, 0u);
}

TEST(Streams, ANewOneIsAskedForItsFirstMessage) {
  Held held;
  held.streams.ReadNext(held.Open(1), Events::Work::kOpen);
  ASSERT_NE(held.Last<Events::Read>(), nullptr);
  EXPECT_EQ(held.Last<Events::Read>()->work, Events::Work::kOpen);
  EXPECT_FALSE(held.streams.full());
  held.Open(2);
  EXPECT_TRUE(held.streams.full());
  EXPECT_EQ(held.callers.Of("key").stream_count, 2u);
}

// How many messages are asked for, of a stream that says one as soon as it is.
size_t ReadWithin(Held& held, VerifierStream& stream, const v1::ClientMessage& message,
                  Duration time) {
  const MonotonicTime end = held.moment.now + time;
  size_t count = 0;
  for (held.streams.ReadNext(stream, Events::Work::kEdit); held.moment.now < end;) {
    if (held.Last<Events::Read>() != nullptr) {
      held.actions.clear();
      ++count;
      held.streams.Took(stream, message);
      held.streams.ReadNext(stream, Events::Work::kEdit);
      continue;
    }
    const std::optional<MonotonicTime> at = held.streams.first_read();
    held.moment.now = at ? std::min(*at, end) : end;
    if (VerifierStream* const reader = held.streams.NextReader()) {
      held.streams.ReadNext(*reader, Events::Work::kEdit);
    }
  }
  return count;
}

TEST(Streams, OneThatSaysTooMuchIsReadLater) {
  Held held;
  held.Advance(std::chrono::hours(1));
  VerifierStream& stream = held.Open(1);
  v1::ClientMessage growth, edit;
  growth.mutable_grow();
  edit.mutable_truncate();
  EXPECT_NEAR(ReadWithin(held, stream, growth, seconds(2)), 2000 + 125, 2);
  EXPECT_NEAR(ReadWithin(held, stream, edit, seconds(2)), 2000.0 / MessagePace::kEdit, 2);
  // Others need not wait for it, and what it has not said is nobody's when it ends.
  held.actions.clear();
  held.streams.ReadNext(held.Open(2), Events::Work::kOpen);
  EXPECT_NE(held.Last<Events::Read>(), nullptr);
  held.streams.ReadNext(stream, Events::Work::kEdit);
  held.streams.End(stream, absl::OkStatus());
  held.Advance(seconds(1));
  EXPECT_EQ(held.streams.NextReader(), nullptr);
}

TEST(Streams, OneThatIsRefusedEndsWhenItsFaultIsWritten) {
  Held held;
  VerifierStream& stream = held.Open(1);
  held.streams.Refuse(stream, v1::Fault::OVERLOADED, absl::ResourceExhaustedError("full"));
  ASSERT_NE(held.Last<Events::Send>(), nullptr);
  EXPECT_EQ(held.Last<Events::Send>()->message->fault().retry_ms(), 1000u);
  EXPECT_EQ(held.streams.FindListening(1), nullptr);
  held.streams.Written(stream);
  ASSERT_NE(held.Last<Events::EndStream>(), nullptr);
  EXPECT_EQ(held.Last<Events::EndStream>()->status.code(), absl::StatusCode::kResourceExhausted);
  held.streams.CheckInvariants(false);
  held.streams.Close(stream);
  EXPECT_EQ(held.streams.size(), 0u);
}

TEST(Streams, ADeadlineThatHasMovedIsNobodys) {
  Held held;
  VerifierStream& stream = held.Open(1);
  held.Advance(seconds(9));
  EXPECT_EQ(held.streams.NextOverdue(), nullptr);
  held.Advance(seconds(1));
  EXPECT_EQ(held.streams.NextOverdue(), &stream);
  held.streams.EndOverdue(stream);
  EXPECT_EQ(held.Last<Events::Send>()->message->fault().kind(), v1::Fault::STALLED);
}

TEST(Streams, WhoDoesNotReadIsCutOff) {
  Held held;
  VerifierStream& stream = held.Open(1);
  stream.outbox.SetProgress();
  held.streams.Pump(stream);
  held.Advance(seconds(10));
  EXPECT_EQ(held.streams.NextOverdue(), nullptr);  // a message is being written, and has its time
  held.Advance(seconds(20));
  ASSERT_EQ(held.streams.NextOverdue(), &stream);
  held.streams.EndOverdue(stream);
  ASSERT_NE(held.Last<Events::EndStream>(), nullptr);
  held.streams.CheckInvariants(false);
}

TEST(Streams, WhatIsHeldBackIsGoneWithItsStream) {
  Held held;
  VerifierStream& first = held.Open(1);
  VerifierStream& second = held.Open(2);
  held.streams.Hold(first, CloseOf(), nullptr);
  held.streams.Hold(second, CloseOf(), nullptr);
  held.streams.CheckInvariants(true);
  held.streams.Close(first);
  EXPECT_EQ(held.streams.Holders(), std::vector<uint64_t>{2});
  EXPECT_TRUE(held.streams.Holders().empty());
}

}  // namespace
}  // namespace outrider
