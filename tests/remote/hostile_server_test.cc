// A server that means no good, over a real socket: whatever it says, the device ends with a short sentence
// that a terminal can be shown, keeps no more than it needs, and stays alive.
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/config.h"
#include "client/verifier/remote_verifier.h"
#include "common/tokens/token_history.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"
#include "tests/client/stories_world.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Line = grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>;

constexpr std::string_view kEscapes = "\x1b[2J\x1b]0;title\x07\r\n\xc2\x9b";

// Answers every stream by a script, on a thread of its own.
class HostileServer final : public v1::Verifier::Service {
 public:
  using Script = std::function<grpc::Status(Line& line, const v1::ClientMessage& first)>;

  explicit HostileServer(Script script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~HostileServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return Concat("127.0.0.1:", port_); }

  grpc::Status Decode(grpc::ServerContext*, Line* line) override {
    v1::ClientMessage first;
    if (!line->Read(&first)) return grpc::Status::OK;
    return script_(*line, first);
  }

 private:
  const Script script_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

uint64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

struct Ended {
  absl::Status status;
  size_t tokens;  // of the reply
};

constexpr uint32_t kTokens = 40;

// How a reply from such a server ends. What holds for all of them is checked.
Ended Reply(HostileServer::Script script) {
  const HostileServer server(std::move(script));
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.max_tokens = kTokens;
  options.link = {.answer_deadline = std::chrono::seconds(2),
                  .silence_max = std::chrono::milliseconds(300),
                  .first_patience = std::chrono::milliseconds(600),
                  .patience = std::chrono::milliseconds(600),
                  .backoff_min = std::chrono::milliseconds(10)};
  const size_t prompt_size = options.prompt.size();
  DraftedSession drafted(std::move(options), Damaged(), PolicyKind::kOurs, *verifier);
  Screen screen;
  const uint64_t before = ResidentBytes();
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  // The server is in this process too, and the largest message that a script makes is 88 MB in its
  // memory and as bytes. AddressSanitizer keeps what was freed, up to so many bytes.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  constexpr uint64_t kFreed = uint64_t{256} << 20;
#else
  constexpr uint64_t kFreed = 0;
#endif
  EXPECT_LT(ResidentBytes(), before + (uint64_t{192} << 20) + kFreed) << status;
  EXPECT_LT(Message(status).size(), 1200u);
  EXPECT_EQ(std::ranges::count_if(Message(status), [](char c) { return c < ' ' || c > '~'; }), 0)
      << status;
  EXPECT_LE(screen.reports().size(), ObserverThread::kReportsMax);
  return {status, drafted.session().committed().size() - prompt_size};
}

v1::ServerMessage OpenedBy(std::string name, std::string token) {
  v1::ServerMessage message;
  v1::Opened& opened = *message.mutable_opened();
  opened.set_session(std::move(name));
  opened.set_token(std::move(token));
  opened.set_sketch_nodes_max(64);
  opened.set_pass_nodes(16);
  opened.set_length_max(kContext);
  return message;
}

v1::ServerMessage Welcome() {
  return OpenedBy("session", "token");
}

// Says what `next` makes, over and over, until the device is gone.
HostileServer::Script ForEver(std::function<v1::ServerMessage(uint32_t number)> next) {
  return [next = std::move(next)](Line& line, const v1::ClientMessage&) {
    line.Write(Welcome());
    for (uint32_t i = 1; line.Write(next(i)); ++i) continue;
    return grpc::Status::OK;
  };
}

TEST(HostileServerTest, ASentenceThatWouldBeObeyedIsShownAndShort) {
  const std::string sentence = std::string(kEscapes) + std::string(10'000'000, 'x');
  const Ended fault = Reply([&](Line& line, const v1::ClientMessage&) {
    v1::ServerMessage message;
    message.mutable_fault()->set_kind(v1::Fault::TARGET);
    message.mutable_fault()->set_message(sentence);
    line.Write(message);
    return grpc::Status::OK;
  });
  EXPECT_THAT(std::string(Message(fault.status)), HasSubstr("\\x1b[2J\\x1b]0;title\\x07\\x0d"));
  const Ended status = Reply([](Line&, const v1::ClientMessage&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, std::string(kEscapes));
  });
  EXPECT_EQ(status.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status.status)), HasSubstr("\\x1b[2J"));
}

TEST(HostileServerTest, NamesThatNobodyCouldKeepAreNoSession) {
  const auto script = [](Line& line, const v1::ClientMessage&) {
    line.Write(OpenedBy(std::string(1 << 20, 'n'), "token"));
    return grpc::Status::OK;
  };
  EXPECT_THAT(std::string(Message(Reply(script).status)), HasSubstr("names a session by 1048576"));
}

TEST(HostileServerTest, WhatIsTooLargeIsRefused) {
  const auto writes = [](size_t count) {
    return Reply([count](Line& line, const v1::ClientMessage&) {
      v1::ServerMessage message = Welcome();
      message.mutable_opened()->mutable_tokens()->Resize(static_cast<int>(count), 1);
      line.Write(message);
      return grpc::Status::OK;
    });
  };
  EXPECT_THAT(std::string(Message(writes(4'000'000).status)), HasSubstr("4000000 tokens"));
  EXPECT_FALSE(writes(17'600'000).status.ok());  // more than a message may have
}

TEST(HostileServerTest, HintsAreNoAnswer) {
  const Ended ended = Reply(ForEver([](uint32_t i) {
    v1::ServerMessage message;
    v1::Hint& hint = *message.mutable_hint();
    hint.set_verdict(i % 3);
    hint.set_exit(i * 0x9e3779b9u);
    hint.set_leaf(i % 70);
    hint.set_next(i * 31);
    hint.set_probability(i);
    return message;
  }));
  EXPECT_FALSE(ended.status.ok());
}

TEST(HostileServerTest, VerdictsOutOfOrderAndEditsThatNobodyMadeComeToNothing) {
  const Ended ended = Reply(ForEver([](uint32_t i) {
    v1::ServerMessage message;
    v1::Verdict& verdict = *message.mutable_verdict();
    verdict.set_leaf_back(i % 9);
    verdict.set_seen(i % 7 == 0 ? UINT32_MAX : i % 40);
    verdict.set_next(i % 600);
    verdict.set_hash(i);
    verdict.set_edits(i % 2 == 0 ? UINT32_MAX : 0);
    for (uint32_t path = 0; path < i % 50; ++path) verdict.add_path(path);
    return message;
  }));
  EXPECT_FALSE(ended.status.ok());
  EXPECT_EQ(ended.tokens, 0u);
}

// A text that adds up, with times that do not.
TEST(HostileServerTest, TimesThatCannotBeChangeNothingButGuesses) {
  const Ended ended = Reply([](Line& line, const v1::ClientMessage& first) {
    line.Write(Welcome());
    uint64_t hash = 0;
    for (const v1::PromptPart& part : first.open().prompt()) {
      for (const uint32_t token : part.tokens().ids()) {
        hash = TokenHistory::Extend(hash, static_cast<TokenId>(token));
      }
    }
    for (uint32_t i = 0; i < kTokens + 5; ++i) {
      const TokenId token = 300 + static_cast<TokenId>(i % 100);
      hash = TokenHistory::Extend(hash, token);
      v1::ServerMessage message;
      v1::Verdict& verdict = *message.mutable_verdict();
      verdict.set_next(static_cast<uint32_t>(token));
      verdict.set_hash(VerdictHash(hash));
      verdict.set_pass_us(i % 2 == 0 ? 1 : UINT32_MAX);
      verdict.set_since_seen_us(i % 3 == 0 ? UINT32_MAX : 0);
      verdict.set_nodes(i % 2 == 0 ? UINT32_MAX : 0);
      if (!line.Write(message)) break;
    }
    v1::ClientMessage message;
    while (line.Read(&message)) continue;
    return grpc::Status::OK;
  });
  EXPECT_TRUE(ended.status.ok()) << ended.status;
  EXPECT_EQ(ended.tokens, kTokens);
}

}  // namespace
}  // namespace outrider
