// A real session over a real socket whose server is killed, over and over.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/verifier/remote_verifier.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

constexpr size_t kKills = 20;
constexpr std::chrono::milliseconds kAway(60);

// A server that comes again, in the same place and knowing nothing, a moment after it was killed.
class MortalServer {
 public:
  MortalServer()
      : process_(std::in_place), port_(process_->port()), reviver_([this] { Revive(); }) {}
  ~MortalServer() {
    {
      MutexLock lock(mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    reviver_.join();
  }

  std::string address() const { return Concat("127.0.0.1:", port_); }

  void Kill() {
    MutexLock lock(mu_);
    process_.reset();
    changed_.NotifyAll();
  }

 private:
  void Revive() {
    for (;;) {
      {
        MutexLock lock(mu_);
        while (process_ && !stopping_) changed_.Wait(mu_);
        if (stopping_) return;
      }
      std::this_thread::sleep_for(kAway);
      MutexLock lock(mu_);
      process_.emplace(port_);
    }
  }

  Mutex mu_;
  CondVar changed_;
  std::optional<ServerProcess> process_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  const uint16_t port_;
  std::thread reviver_;  // last: it starts when all above exists
};

// Kills the server whenever so many more tokens have come, while the session stands still: Interrupted() is asked after
// every event, on the session's thread.
class Killer final : public SessionDriver::Observer {
 public:
  Killer(MortalServer& server, const Session& session, size_t tokens)
      : server_(server), session_(session), begin_(session.committed().size()), tokens_(tokens) {}

  void OnText(std::string_view text) override { text_ += text; }
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status&) override {}
  bool Interrupted() override {
    if (session_.committed().size() - begin_ < tokens_ * (kills_ + 1)) return false;
    ++kills_;
    server_.Kill();
    return false;
  }

  const std::string& text() const { return text_; }
  size_t kills() const { return kills_; }

 private:
  MortalServer& server_;
  const Session& session_;
  const size_t begin_;
  const size_t tokens_;
  std::string text_;
  size_t kills_ = 0;
};

void ExpectTheTextOfTheTargetAlone(const SamplingOptions& sampling) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Lily had a red ball");
  options.continues_text = true;
  options.stops.max_tokens = 180;
  options.link.patience = std::chrono::seconds(20);  // a broken client fails in good time
  options.sampling = sampling;
  const Written alone = Alone(options.prompt, options.sampling, options.stops, true);

  MortalServer server;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  // A verdict brings several tokens, so that some of the kills asked for fall together.
  Killer killer(server, drafted.session(),
                (alone.tokens.size() - options.prompt.size()) / (kKills + 4));
  const absl::Status status = drafted.driver().Run(Session::Start{}, killer);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(killer.text(), alone.text);
  const auto committed = drafted.session().committed();
  EXPECT_EQ(std::vector<TokenId>(committed.begin(), committed.end()), alone.tokens);
  EXPECT_GE(killer.kills(), kKills);
  EXPECT_GE(drafted.session().stats().reopenings, kKills);
  std::printf("server killed %zu times\n", killer.kills());
}

TEST(ServerKillTest, KilledOverAndOverItCostsTimeAndNoToken) {
  ExpectTheTextOfTheTargetAlone({});
}

TEST(ServerKillTest, KilledOverAndOverItCostsTimeAndNoSampledToken) {
  ExpectTheTextOfTheTargetAlone(Sampled(3));
}

}  // namespace
}  // namespace outrider
