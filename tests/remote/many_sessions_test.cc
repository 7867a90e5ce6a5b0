// As many sessions at a time as --sessions says.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

constexpr uint64_t kSessions = 200;

// Counts how streams are answered.
class Answers final : public Verifier::Listener {
 public:
  void OnMessage(uint64_t, v1::ServerMessage&& message) override {
    if (message.has_opened()) ++opened;
    if (message.has_fault() && message.fault().kind() == v1::Fault::OVERLOADED) ++refused;
  }
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status&) override { ++down; }

  void Await(uint64_t answers) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (opened + refused < answers && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::atomic<uint64_t> opened = 0;
  std::atomic<uint64_t> refused = 0;
  std::atomic<uint64_t> down = 0;
};

v1::ClientMessage Waiting(uint64_t nonce) {
  v1::ClientMessage message;
  message.mutable_open()->set_nonce(nonce);
  message.mutable_open()->set_attempt(1);
  message.mutable_open()->set_dry_policy(v1::DRY_POLICY_WAIT);
  SetPrompt(TheTokenizer().Encode("Once"), *message.mutable_open());
  return message;
}

TEST(ManySessionsTest, TwoHundredAreTwoHundredAndNoMore) {
  const ServerProcess server(0, {"--sessions", std::to_string(kSessions), "--context", "64"});
  Answers answers;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  for (uint64_t stream = 1; stream <= kSessions; ++stream) {
    verifier->Open(stream, answers);
    v1::ClientMessage open = Waiting(stream);
    verifier->Send(stream, open);
  }
  answers.Await(kSessions);
  EXPECT_EQ(answers.opened, kSessions);
  EXPECT_EQ(answers.refused, 0u);

  verifier->Open(kSessions + 1, answers);
  v1::ClientMessage open = Waiting(kSessions + 1);
  verifier->Send(kSessions + 1, open);
  answers.Await(kSessions + 1);
  EXPECT_EQ(answers.refused, 1u);
  for (uint64_t stream = 1; stream <= kSessions + 1; ++stream) verifier->Close(stream);
}

}  // namespace
}  // namespace outrider
