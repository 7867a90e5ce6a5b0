// What a stranger's messages cost a server.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Keeps how a stream ended.
class Ending final : public Verifier::Listener {
 public:
  explicit Ending(Verifier& verifier) : verifier_(verifier) {}

  void OnMessage(uint64_t stream, v1::ServerMessage&&) override { verifier_.Read(stream); }
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status& status) override {
    status_ = status;
    is_down_ = true;
  }

  absl::Status Await() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_down_ && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    OUTRIDER_CHECK(is_down_, "every stream ends");
    return status_;
  }

 private:
  Verifier& verifier_;
  absl::Status status_;
  std::atomic<bool> is_down_ = false;
};

class StrangerTest : public testing::Test {
 protected:
  static v1::ClientMessage Opening() {
    v1::ClientMessage message;
    message.mutable_open()->set_nonce(1);
    message.mutable_open()->set_attempt(1);
    SetPrompt(TheTokenizer().Encode("Once"), *message.mutable_open());
    return message;
  }

  // How its stream ends.
  absl::Status Say(v1::ClientMessage message) {
    Ending ending(*verifier_);
    verifier_->Open(++stream_, ending);
    verifier_->Send(stream_, message);
    absl::Status status = ending.Await();
    verifier_->Close(stream_);
    return status;
  }

  // It still writes what it would have.
  void ExpectItServes() {
    SessionOptions options;
    options.prompt = TheTokenizer().Encode("Once upon a time");
    options.stops.max_tokens = 20;
    DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier_);
    Screen screen;
    const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(screen.Take(), Alone(options.prompt, {}, options.stops, false).text);
    drafted.driver().Close();
  }

  ServerProcess server_;
  const std::unique_ptr<RemoteVerifier> verifier_ =
      OrDie(RemoteVerifier::Connect(server_.address()));
  uint64_t stream_ = 1000;
};

TEST_F(StrangerTest, FifteenMegabytesOfEmptyStopStringsAreNotEvenRead) {
  ExpectItServes();
  const int64_t before = server_.peak_kilobytes();
  v1::ClientMessage message = Opening();
  for (int i = 0; i < 7'500'000; ++i) message.mutable_open()->mutable_stops()->add_strings("");
  // gRPC refuses it, or the front door has had enough of it before.
  EXPECT_THAT(Say(std::move(message)).code(),
              AnyOf(absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable));
  if (kCountsMemory) {
    EXPECT_LT(server_.peak_kilobytes() - before, 64 * 1024);
  }
  ExpectItServes();
}

TEST_F(StrangerTest, WhatFitsIntoAMessageAndIsTooMuchIsRefusedWithTheLimit) {
  v1::ClientMessage stops = Opening();
  for (int i = 0; i < 20'000; ++i) stops.mutable_open()->mutable_stops()->add_strings("");
  EXPECT_THAT(std::string(Say(std::move(stops)).message()), HasSubstr("64 there may be"));
  v1::ClientMessage ends = Opening();
  for (int i = 0; i < 20'000; ++i) ends.mutable_open()->mutable_stops()->add_end_tokens(1);
  EXPECT_THAT(std::string(Say(std::move(ends)).message()), HasSubstr("256 there may be"));
  v1::ClientMessage prompt = Opening();
  for (int i = 0; i < 1'000; ++i) prompt.mutable_open()->mutable_prompt()->Add()->mutable_tokens();
  EXPECT_THAT(std::string(Say(std::move(prompt)).message()), HasSubstr("64 there may be"));
  ExpectItServes();
}

}  // namespace
}  // namespace outrider
