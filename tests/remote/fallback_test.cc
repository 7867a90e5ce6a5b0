// A session whose server can be lost and found again, and that goes on from a target of its own
// device meanwhile: the tokens are the target's, whoever has computed them.
#include "client/verifier/fallback_verifier.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/emulators/link_emulator.h"
#include "client/verifier/remote_verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/local_host.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using Place = FallbackVerifier::Place;
using State = LinkEmulator::State;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

SessionOptions Story(const SamplingOptions& sampling, uint32_t tokens = 150) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.continues_text = true;
  options.stops = {.at_end_of_generation = false, .max_tokens = tokens};
  options.sampling = sampling;
  options.link.backoff_max = std::chrono::milliseconds(100);
  options.link.patience = options.link.first_patience = std::chrono::seconds(8);
  return options;
}

// Calls back at every tenth token with how many tens there have been, on the session's thread. The
// model is small: with a pace everything takes so much longer that a link can come back before the
// text ends.
class Watcher final : public SessionDriver::Observer {
 public:
  Watcher(const Session& session, std::function<void(size_t)> at_tens,
          std::function<Duration()> pace)
      : session_(session),
        begin_(session.committed().size()),
        at_tens_(std::move(at_tens)),
        pace_(std::move(pace)) {}

  void OnText(std::string_view text) override { text_ += text; }
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status& status) override { reports_.push_back(status); }
  bool Interrupted() override {
    const size_t tens = (session_.committed().size() - begin_) / 10;
    while (tens_ < tens) at_tens_(++tens_);
    std::this_thread::sleep_for(pace_());
    return false;
  }

  const std::string& text() const { return text_; }
  const std::vector<absl::Status>& reports() const { return reports_; }

 private:
  const Session& session_;
  const size_t begin_;
  const std::function<void(size_t)> at_tens_;
  const std::function<Duration()> pace_;
  std::string text_;
  std::vector<absl::Status> reports_;
  size_t tens_ = 0;
};

constexpr FallbackVerifier::Options kQuick = {.device_pass = std::chrono::milliseconds(50)};

// A target on this device, a server somewhere, and sessions that have both.
class FallbackTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<FallbackVerifier> NewVerifier(uint16_t port,
                                                const FallbackVerifier::Options& options = kQuick) {
    auto verifier = std::make_unique<FallbackVerifier>(
        OrDie(RemoteVerifier::Connect(Concat("127.0.0.1:", port))),
        std::make_unique<LocalVerifier>(device_.driver(), LocalVerifier::Options{}), options);
    place_ = Place::kServer;
    moves_ = 0;
    verifier->TellMoves([this](Place place) {
      place_ = place;
      ++moves_;
    });
    return verifier;
  }

  // Writes the story, and expects the target's tokens.
  void Write(FallbackVerifier& verifier, const std::function<void(size_t)>& at_tens,
             PolicyKind policy = PolicyKind::kOurs) {
    const SessionOptions options = Story(GetParam() ? Sampled(5) : SamplingOptions());
    const Written alone = Alone(options.prompt, options.sampling, options.stops, true);
    DraftedSession drafted(options, Damaged(), policy, verifier);
    Watcher watcher(drafted.session(), at_tens, [this] {
      return std::chrono::milliseconds(place_ == Place::kDevice ? 30 : 0);
    });
    const absl::Status status = drafted.driver().Run(Session::Start{}, watcher);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(watcher.text(), alone.text);
    const auto committed = drafted.session().committed();
    EXPECT_EQ(std::vector<TokenId>(committed.begin(), committed.end()), alone.tokens);
    EXPECT_THAT(watcher.reports(), IsEmpty());  // both have one numerics id
    drafted.driver().Close();
  }

  LocalHost device_;
  Place place_ = Place::kServer;  // where the newest stream has led
  int moves_ = 0;
};

INSTANTIATE_TEST_SUITE_P(GreedyAndSampled, FallbackTest, testing::Bool());

TEST_P(FallbackTest, GoesOnHereWhileTheLinkIsBrokenAndReturnsInMidSentence) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  for (const PolicyKind policy :
       {PolicyKind::kChain, PolicyKind::kLever, PolicyKind::kOurs, PolicyKind::kAuto}) {
    SCOPED_TRACE(PolicyName(policy));
    const auto verifier = NewVerifier(link->port());
    Write(
        *verifier,
        [&](size_t tens) {
          // Early, since a server is some verdicts ahead of what is shown.
          if (tens == 1) link->Set(State::kBroken);
          if (moves_ == 1) link->Set(State::kWhole);
        },
        policy);
    EXPECT_EQ(moves_, 2);
    EXPECT_EQ(place_, Place::kServer);
  }
}

// No connection ends: the server's silence is all that tells.
TEST_P(FallbackTest, GoesOnHereWhileTheLinkIsSilent) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  Write(*verifier, [&](size_t tens) {
    if (tens == 1) link->Set(State::kSilent);  // early: a server is ahead of what is shown
    if (moves_ == 1) link->Set(State::kWhole);
  });
  EXPECT_EQ(moves_, 2);
}

TEST_P(FallbackTest, ALinkThatFailsOverAndOverCostsTimeAndNoToken) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  Write(*verifier, [&](size_t tens) {
    link->Set(tens % 4 == 1 ? State::kBroken : tens % 4 == 3 ? State::kSilent : State::kWhole);
  });
  EXPECT_GE(moves_, 1);  // on a busy machine the text may end before there is a way back
}

TEST_P(FallbackTest, AServerThatComesBackKnowingNothingIsReturnedTo) {
  std::optional<ServerProcess> server(std::in_place);
  const uint16_t port = server->port();
  const auto verifier = NewVerifier(port);
  Write(*verifier, [&](size_t tens) {
    if (tens == 3) server.reset();
    if (tens == 5) server.emplace(port);
  });
  EXPECT_EQ(moves_, 2);
  EXPECT_EQ(place_, Place::kServer);
}

TEST_P(FallbackTest, BeginsHereWhereThereIsNoServerAndGoesThereWhenThereIs) {
  std::optional<ServerProcess> server(std::in_place);
  const uint16_t port = server->port();
  server.reset();
  const auto verifier = NewVerifier(port, {.begins_at_device = true});
  Write(*verifier, [&](size_t tens) {
    if (tens == 3) server.emplace(port);
  });
  EXPECT_EQ(moves_, 2);
  EXPECT_EQ(place_, Place::kServer);
}

TEST_P(FallbackTest, GoesWhereItIsPreferred) {
  const ServerProcess server;
  const auto verifier = NewVerifier(server.port());
  Write(*verifier, [&](size_t tens) {
    if (tens == 2) verifier->Prefer(Place::kDevice);
    if (tens == 5) verifier->Prefer(Place::kServer);
  });
  EXPECT_EQ(moves_, 2);
  EXPECT_EQ(place_, Place::kServer);
}

// A pass takes three times as long as anybody would wait for a link.
TEST_P(FallbackTest, AServerThatIsBusyIsNotLeft) {
  const ServerProcess server(0, {"--pass", "1000"}, OUTRIDER_PACED_SERVER);
  const auto verifier = NewVerifier(server.port());
  const SessionOptions options = Story(GetParam() ? Sampled(5) : SamplingOptions(), 4);
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  Screen screen;
  ASSERT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok());
  EXPECT_EQ(screen.Take(), Alone(options.prompt, options.sampling, options.stops, true).text);
  EXPECT_EQ(moves_, 0);
  drafted.driver().Close();
}

TEST_P(FallbackTest, ATargetHereThatFailsLeavesTheSessionToItsServer) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  Write(*verifier, [&](size_t tens) {
    if (tens == 3) link->Set(State::kBroken);
    if (tens == 5) {
      device_.Fail();
      link->Set(State::kWhole);
    }
  });
  EXPECT_THAT(moves_, AllOf(Ge(2), Le(6)));  // it may be asked again before there is a way back
  EXPECT_EQ(place_, Place::kServer);
  EXPECT_THAT(std::string(verifier->device_failure().message()), HasSubstr("copy.gguf: "));
}

// The link stays broken, so that only the target here can go on.
TEST_P(FallbackTest, ATargetHereThatFailsOnceIsAskedAgain) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  Write(*verifier, [&](size_t tens) {
    if (tens == 3) link->Set(State::kBroken);
    if (tens == 5) device_.Fail(1);
    if (tens == 8) link->Set(State::kWhole);
  });
  EXPECT_EQ(moves_, 4);
  EXPECT_EQ(place_, Place::kServer);
  EXPECT_TRUE(verifier->device_failure().ok());
}

TEST_P(FallbackTest, WhereBothTargetsFailTheSessionEnds) {
  const ServerProcess server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  SessionOptions options = Story(SamplingOptions());
  options.link.patience = std::chrono::seconds(4);
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  Watcher watcher(
      drafted.session(),
      [&](size_t tens) {
        if (tens != 3) return;
        device_.Fail();
        link->Set(State::kBroken);
      },
      [] { return std::chrono::milliseconds(0); });
  EXPECT_FALSE(drafted.driver().Run(Session::Start{}, watcher).ok());
  EXPECT_THAT(std::string(verifier->device_failure().message()), HasSubstr("copy.gguf: "));
  EXPECT_THAT(moves_, AllOf(Ge(2), Le(6)));  // three times here at the most
  drafted.driver().Close();
}

// What was left with the server is told farewell: one with room for a single session has it then.
TEST_P(FallbackTest, LeavesNothingBehind) {
  const ServerProcess server(0, {"--sessions", "1", "--open-sessions", "1"});
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  const auto verifier = NewVerifier(link->port());
  Write(*verifier, [&](size_t tens) {
    if (tens == 3) link->Set(State::kBroken);
    if (tens == 5) link->Set(State::kWhole);
  });
  EXPECT_EQ(moves_, 2);
  EXPECT_EQ(place_, Place::kServer);
}

}  // namespace
}  // namespace outrider
