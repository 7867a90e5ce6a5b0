// Sessions over a real socket.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "bench/emulators/link_emulator.h"
#include "client/verifier/remote_verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

SessionOptions Story(const char* prompt, uint32_t tokens) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode(prompt);
  options.continues_text = true;
  options.stops.max_tokens = tokens;
  return options;
}

TEST(RemoteSessionTest, WritesWhatTheTargetAloneWould) {
  ServerProcess server;
  for (const bool sampled : {false, true}) {
    SessionOptions options = Story("Once upon a time", 80);
    if (sampled) options.sampling = Sampled(3);
    const Written alone = Alone(options.prompt, options.sampling, options.stops, true);
    const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
    EXPECT_EQ(OrDie(verifier->Describe()).model_name(), "stories260k");
    for (const PolicyKind kind : kPolicyKinds) {
      DraftedSession drafted(options, Damaged(), kind, *verifier);
      Screen screen;
      const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(screen.Take(), alone.text) << PolicyName(kind);
      drafted.driver().Close();
      EXPECT_EQ(drafted.session().stats().attachments, 1u);
    }
  }
  EXPECT_EQ(server.Stop(), 0);
}

TEST(RemoteSessionTest, AFarServerIsReached) {
  const ServerProcess server;
  const auto link = OrDie(
      LinkEmulator::Start({.server_port = server.port(), .delay = std::chrono::milliseconds(200)}));
  const auto verifier = OrDie(RemoteVerifier::Connect(Concat("127.0.0.1:", link->port())));
  const auto described = verifier->Describe();
  ASSERT_TRUE(described.ok()) << described.status();
  const SessionOptions options = Story("Once upon a time", 10);
  DraftedSession drafted(options, Good(), PolicyKind::kOurs, *verifier);
  Screen screen;
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(screen.Take(), Alone(options.prompt, {}, options.stops, true).text);
  EXPECT_EQ(drafted.session().stats().attachments, 1u);
}

TEST(RemoteSessionTest, AVerifierThatIsNotThereIsGivenUpInASentence) {
  const auto verifier = OrDie(RemoteVerifier::Connect("127.0.0.1:1"));
  const auto described = verifier->Describe();
  EXPECT_EQ(described.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(described.status().message()),
              HasSubstr("cannot reach a verifier at 127.0.0.1:1"));

  SessionOptions options = Story("Once", 5);
  options.link.first_patience = std::chrono::milliseconds(300);
  DraftedSession drafted(options, Good(), PolicyKind::kOurs, *verifier);
  Screen screen;
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("attempts"));
}

// Takes its time to hear that a stream is down.
class SlowListener final : public Verifier::Listener {
 public:
  void OnMessage(uint64_t, v1::ServerMessage&&) override {}
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    heard_ = true;
  }

  bool heard() const { return heard_; }

 private:
  std::atomic<bool> heard_ = false;
};

TEST(RemoteSessionTest, AVerifierIsGoneOnlyWhenItsThreadsHaveLeftIt) {
  SlowListener listener;
  auto verifier = OrDie(RemoteVerifier::Connect("127.0.0.1:1"));
  verifier->Open(1, listener);
  verifier.reset();
  EXPECT_TRUE(listener.heard());
}

TEST(RemoteSessionTest, AnAddressIsAHostAndAPort) {
  EXPECT_EQ(RemoteVerifier::Connect("host").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
