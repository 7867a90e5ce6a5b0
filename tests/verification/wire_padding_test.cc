#include "common/verification/wire_padding.h"

#include <algorithm>
#include <string>

#include "common/tokens/token_history.h"
#include "common/verification/generation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

v1::ClientMessage GrowthOf(size_t bytes) {
  v1::ClientMessage message;
  message.mutable_grow()->set_nodes(std::string(bytes, 'n'));
  return message;
}

TEST(WirePadding, EverySizeBecomesAMultipleAndNothingElseChanges) {
  for (uint32_t frame_bytes = 1; frame_bytes <= kFrameBytesMax;
       frame_bytes += frame_bytes / 8 + 1) {
    for (size_t bytes = 0; bytes < 700; ++bytes) {
      const v1::ClientMessage plain = GrowthOf(bytes);
      v1::ClientMessage padded = plain;
      PadTo(frame_bytes, padded);
      const size_t size = padded.SerializeAsString().size();
      ASSERT_EQ(size % frame_bytes, 0u) << bytes << " bytes in frames of " << frame_bytes;
      const bool misses_one = frame_bytes > 1 && (plain.ByteSizeLong() + 1) % frame_bytes == 0;
      ASSERT_LT(size, plain.ByteSizeLong() + frame_bytes + (misses_one ? 2 : 0)) << bytes;
      ASSERT_TRUE(CheckPadding(padded.padding().size()).ok());
      ASSERT_EQ(padded.padding().find_first_not_of('\0'), std::string::npos);
      PadTo(0, padded);
      ASSERT_EQ(padded.SerializeAsString(), plain.SerializeAsString());
    }
  }
}

TEST(WirePadding, AMessageThatIsPaddedAgainHasNoMoreThanBefore) {
  v1::ClientMessage message = GrowthOf(40);
  for (int i = 0; i < 3; ++i) {
    PadTo(256, message);
    EXPECT_EQ(message.ByteSizeLong(), 256u);
  }
}

// Opened, verdicts, and the fault at the end; on the next stream what the next one asks for.
TEST(WirePadding, WhatAStreamHearsHasTheSizeThatItsDeviceAskedFor) {
  VerifierWorld world;
  v1::ClientMessage open = OpenOf(1, "once", v1::DRY_POLICY_ALONE);
  open.mutable_open()->set_frame_bytes(128);
  const auto stream = world.Connect();
  world.Send(stream, open);
  world.Runs(5);
  world.Send(stream, open);  // which this stream has said
  const auto& received = world.line(stream).received;
  ASSERT_GE(received.size(), 7u);
  for (const v1::ServerMessage& message : received) EXPECT_EQ(message.ByteSizeLong() % 128, 0u);
  EXPECT_TRUE(received.back().has_fault());

  const auto plain = OpenSession(world, 2, "once", v1::DRY_POLICY_ALONE);
  for (const v1::ServerMessage& message : world.line(plain).received) {
    EXPECT_TRUE(message.padding().empty());
  }
}

TEST(WirePadding, AResumedStreamIsPaddedAsItAsks) {
  VerifierWorld world;
  const auto first = world.Connect();
  world.Send(first, OpenOf(1, "once"));
  world.Run();
  const v1::Opened opened = world.line(first).received[0].opened();
  world.Close(first);
  v1::ClientMessage resume;
  resume.mutable_resume()->set_session(opened.session());
  resume.mutable_resume()->set_token(opened.token());
  uint64_t hash = 0;
  for (const TokenId token : Tokens("once")) hash = TokenHistory::Extend(hash, token);
  resume.mutable_resume()->set_length(4);
  resume.mutable_resume()->set_hash(hash);
  resume.mutable_resume()->set_attempt(2);
  resume.mutable_resume()->set_frame_bytes(512);
  const auto second = world.Connect();
  world.Send(second, resume);
  ASSERT_FALSE(world.line(second).received.empty());
  EXPECT_TRUE(world.line(second).received[0].has_resumed());
  EXPECT_EQ(world.line(second).received[0].ByteSizeLong() % 512, 0u);
}

TEST(WirePadding, MoreThanThereMayBeIsRefused) {
  VerifierWorld world;
  v1::ClientMessage open = OpenOf(1, "once");
  open.mutable_open()->set_frame_bytes(kFrameBytesMax + 1);
  const auto stream = world.Connect();
  world.Send(stream, open);
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MALFORMED);
  EXPECT_THAT(FaultOf(world, stream).message(), HasSubstr("frames of 4097 bytes"));

  for (const bool is_first : {true, false}) {
    v1::ClientMessage message = is_first ? OpenOf(2, "once") : GoOf(0);
    message.set_padding(std::string(2 * kFrameBytesMax + 1, '\0'));
    const auto padded = is_first ? world.Connect() : OpenSession(world, 3, "once");
    world.Send(padded, message);
    EXPECT_EQ(FaultOf(world, padded).kind(), v1::Fault::MALFORMED);
    EXPECT_THAT(FaultOf(world, padded).message(), HasSubstr("padded by 8193 bytes"));
  }
  EXPECT_EQ(world.machine().session_count(), 0u);
}

TEST(WirePadding, ResponsesOfAGenerationArePaddedToo) {
  v1::GenerateRequest request;
  request.mutable_open()->set_frame_bytes(64);
  Generation generation = *Generation::Create(request, /*nonce=*/1, /*drafts=*/false);
  EXPECT_EQ(generation.NextUp()->open().frame_bytes(), 0u);  // nobody counts bytes in here
  v1::ServerMessage verdict;
  verdict.mutable_verdict()->set_next(300);
  ASSERT_TRUE(generation.Hear(verdict));
  EXPECT_EQ(generation.response().ByteSizeLong(), 64u);
  EXPECT_EQ(generation.response().tokens(0), 300u);
  request.mutable_open()->set_frame_bytes(kFrameBytesMax + 1);
  EXPECT_FALSE(Generation::Create(request, 1, false).ok());
}

}  // namespace
}  // namespace outrider
