// Text that is written at a server: by its target alone, and with its own draft.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/simulator/world/moving_controller.h"
#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kTokens = 80;

v1::GenerateRequest Story(const char* prompt, bool draft, const SamplingOptions& sampling = {}) {
  v1::GenerateRequest request;
  request.set_draft(draft);
  SetPrompt(TheTokenizer().Encode(prompt), *request.mutable_open());
  ToWire(sampling, *request.mutable_open()->mutable_sampling());
  request.mutable_open()->mutable_stops()->set_max_tokens(kTokens);
  request.mutable_open()->mutable_stops()->set_continues_text(true);
  return request;
}

std::vector<TokenId> AloneHere(const char* prompt, const SamplingOptions& sampling = {}) {
  StopOptions stops;
  stops.max_tokens = kTokens;
  return Alone(TheTokenizer().Encode(prompt), sampling, stops, true).tokens;
}

struct Written {
  absl::Status status;
  std::vector<TokenId> tokens;
  v1::Finish finish = v1::FINISH_NONE;
  size_t passes = 0;
};

Written Generate(RemoteVerifier& verifier, const char* prompt, bool draft,
                 const SamplingOptions& sampling = {}) {
  Written written;
  written.tokens = TheTokenizer().Encode(prompt);
  written.status =
      verifier.Generate(Story(prompt, draft, sampling), [&](const v1::GenerateResponse& response) {
        for (const uint32_t token : response.tokens()) {
          written.tokens.push_back(static_cast<TokenId>(token));
        }
        if (response.tokens_size() > 0) ++written.passes;
        written.finish = response.finish();
        return true;
      });
  return written;
}

TEST(GenerateTest, TheServersTargetWritesWhatItWritesHere) {
  const ServerProcess server;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  EXPECT_FALSE(OrDie(verifier->Describe()).drafts());
  for (const SamplingOptions& sampling : {SamplingOptions{}, Sampled(3)}) {
    const Written written = Generate(*verifier, "Once upon a time", false, sampling);
    ASSERT_TRUE(written.status.ok()) << written.status;
    EXPECT_EQ(written.tokens, AloneHere("Once upon a time", sampling));
    EXPECT_EQ(written.finish, v1::FINISH_TOKEN_LIMIT);
    EXPECT_EQ(written.passes, kTokens);
  }
}

// Beside a target that is no slower a draft would not be worth its time.
TEST(GenerateTest, WithItsOwnDraftItWritesTheSameInFewerPasses) {
  const ServerProcess server(0, {"--draft", Stories(), "--pass", "20"}, OUTRIDER_PACED_SERVER);
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  EXPECT_TRUE(OrDie(verifier->Describe()).drafts());
  for (const SamplingOptions& sampling : {SamplingOptions{}, Sampled(3)}) {
    const Written written = Generate(*verifier, "Once upon a time", true, sampling);
    ASSERT_TRUE(written.status.ok()) << written.status;
    EXPECT_EQ(written.tokens, AloneHere("Once upon a time", sampling));
    EXPECT_LE(written.passes, kTokens / 4);
  }
}

// Back and forth in the middle of a reply, and with a draft there that is none of the one here.
TEST(GenerateTest, ASessionLeavesDraftingToTheServerAndTakesItBack) {
  const ServerProcess server(0, {"--draft", Stories(), "--pass", "20"}, OUTRIDER_PACED_SERVER);
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  uint64_t drafted_there = 0;
  for (const uint32_t verdicts : {1, 3, 8}) {
    for (const SamplingOptions& sampling : {SamplingOptions{}, Sampled(3)}) {
      SessionOptions options;
      options.prompt = TheTokenizer().Encode("Once upon a time");
      options.sampling = sampling;
      options.continues_text = true;
      options.stops.max_tokens = kTokens;
      DraftedSession drafted(
          options, Damaged(),
          std::make_unique<MovingController>(
              MakeController({.kind = PolicyKind::kOurs}, {.server_drafts = true}), verdicts),
          *verifier);
      Screen screen;
      const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
      ASSERT_TRUE(status.ok()) << status;
      const auto committed = drafted.session().committed();
      EXPECT_EQ(std::vector(committed.begin(), committed.end()),
                AloneHere("Once upon a time", sampling));
      EXPECT_EQ(drafted.session().stats().attachments, 1u);
      drafted_there += drafted.session().stats().passes_drafted_there;
      drafted.driver().Close();
    }
  }
  EXPECT_GT(drafted_there, 10u);
}

TEST(GenerateTest, ADraftThatIsOftenWrongChangesNoToken) {
  const ServerProcess server(0, {"--draft", DamagedStories()});
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  const Written written = Generate(*verifier, "The dog", true, Sampled(5));
  ASSERT_TRUE(written.status.ok()) << written.status;
  EXPECT_EQ(written.tokens, AloneHere("The dog", Sampled(5)));
}

TEST(GenerateTest, FourAtOnceWriteAsOne) {
  const ServerProcess server(0, {"--draft", DamagedStories()});
  constexpr const char* kPrompts[] = {"Once upon a time", "The dog", "Lily had a red ball.", "Tom"};
  std::vector<std::vector<TokenId>> alone;
  for (const char* const prompt : kPrompts) alone.push_back(AloneHere(prompt));
  std::vector<std::thread> callers;
  for (size_t i = 0; i < 4; ++i) {
    callers.emplace_back([&, i] {
      const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
      const Written written = Generate(*verifier, kPrompts[i], /*draft=*/i % 2 == 0);
      EXPECT_TRUE(written.status.ok()) << written.status;
      EXPECT_EQ(written.tokens, alone[i]);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(GenerateTest, WhoeverLeavesHalfWayMakesRoom) {
  const ServerProcess server(0, {"--sessions", "1"});
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  const absl::Status left =
      verifier->Generate(Story("Once", false), [](const v1::GenerateResponse&) { return false; });
  EXPECT_TRUE(left.ok());
  Written written;
  for (int attempt = 0; attempt < 100; ++attempt) {
    written = Generate(*verifier, "The dog", false);
    if (written.status.ok()) break;
    ASSERT_EQ(written.status.code(), absl::StatusCode::kResourceExhausted) << written.status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(written.tokens, AloneHere("The dog"));
}

// With stubs as others make them from the .proto.
TEST(GenerateTest, ADeadlineEndsItAndWhatIsNoRequestIsToldSo) {
  const ServerProcess server(0, {"--pass", "20", "--sessions", "1"}, OUTRIDER_PACED_SERVER);
  const auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::Verifier::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  const auto reader = stub->Generate(&context, Story("Once upon a time", false));
  v1::GenerateResponse response;
  size_t tokens = 0;
  while (reader->Read(&response)) tokens += static_cast<size_t>(response.tokens_size());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_GT(tokens, 0u);
  EXPECT_LT(tokens, kTokens);

  grpc::GenericStub any(channel);
  for (const char* const method : {"Describe", "Generate"}) {
    grpc::ClientContext broken;
    grpc::CompletionQueue queue;
    grpc::Slice slice("\xFF\xFF\xFF");
    grpc::ByteBuffer answer;
    const auto call = any.PrepareUnaryCall(&broken, Concat("/outrider.v1.Verifier/", method),
                                           grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(Concat("outrider.v1.", method, "Request, and")));
  }
}

TEST(GenerateTest, WhatCannotBeDoneIsRefusedInASentence) {
  const ServerProcess server;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  const Written drafted = Generate(*verifier, "Once", true);
  EXPECT_EQ(drafted.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(drafted.status.message()), HasSubstr("has no draft"));

  v1::GenerateRequest request = Story("Once", false);
  request.mutable_open()->add_prompt()->mutable_image()->set_width(1);
  const absl::Status status =
      verifier->Generate(request, [](const v1::GenerateResponse&) { return true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("takes no images"));
}

}  // namespace
}  // namespace outrider
