// A screen that shows nothing for as long as it likes stops nothing but the text.
#include "client/driver/observer_thread.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "client/verifier/local_verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/local_host.h"
#include "tests/client/stories_world.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Opens once. Whoever waits for it in vain goes on after a while, and the test fails.
class Gate {
 public:
  void Open() {
    MutexLock lock(mu_);
    is_open_ = true;
    opened_.NotifyAll();
  }
  void Await() {
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(20);
    MutexLock lock(mu_);
    while (!is_open_ && opened_.WaitUntil(mu_, deadline)) {
    }
    EXPECT_TRUE(is_open_);
  }
  bool is_open() {
    MutexLock lock(mu_);
    return is_open_;
  }

 private:
  Mutex mu_;
  CondVar opened_;
  bool is_open_ ABSL_GUARDED_BY(mu_) = false;
};

// Shows its first text when the gate is open.
class StuckScreen final : public ReplyObserver {
 public:
  explicit StuckScreen(Gate& gate) : gate_(gate) {}

  void OnText(std::string_view text) override {
    stuck_.Open();
    gate_.Await();
    pieces_.emplace_back(text);
  }
  void OnTokens(std::span<const TokenId> tokens) override {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  void OnPromptProgress(uint32_t processed, uint32_t) override { progress_.push_back(processed); }
  void OnReport(const absl::Status&) override { ++reports_; }
  bool Interrupted() override {
    if (!interrupts_ || !stuck_.is_open()) return false;
    gate_.Open();
    return true;
  }

  // When it is stuck, which ends with that.
  void Interrupt() { interrupts_ = true; }
  void AwaitStuck() { stuck_.Await(); }
  std::string text() const {
    std::string text;
    for (const std::string& piece : pieces_) text += piece;
    return text;
  }
  const std::vector<std::string>& pieces() const { return pieces_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<uint32_t>& progress() const { return progress_; }
  size_t reports() const { return reports_; }

 private:
  Gate& gate_;
  Gate stuck_;
  bool interrupts_ = false;
  std::vector<std::string> pieces_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> progress_;
  size_t reports_ = 0;
};

// Opens a gate with the verdict that ends a reply.
class Watched final : public Verifier {
 public:
  Watched(Verifier& verifier, Gate& gate) : verifier_(verifier), tap_(gate) {}

  void Open(uint64_t stream, Listener& listener) override {
    tap_.listener = &listener;
    verifier_.Open(stream, tap_);
  }
  void Send(uint64_t stream, v1::ClientMessage& message) override {
    verifier_.Send(stream, message);
  }
  void Read(uint64_t stream) override { verifier_.Read(stream); }
  void Close(uint64_t stream) override { verifier_.Close(stream); }
  RunForecast Forecast(const RunShape& shape) const override { return verifier_.Forecast(shape); }

 private:
  struct Tap final : Listener {
    explicit Tap(Gate& finished) : gate(finished) {}

    void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
      if (message.verdict().finish() != v1::FINISH_NONE) gate.Open();
      listener->OnMessage(stream, std::move(message));
    }
    void OnWritten(uint64_t stream) override { listener->OnWritten(stream); }
    void OnDown(uint64_t stream, const absl::Status& status) override {
      listener->OnDown(stream, status);
    }

    Gate& gate;
    Listener* listener = nullptr;
  };

  Verifier& verifier_;
  Tap tap_;
};

SessionOptions Asked() {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.continues_text = true;
  options.stops.max_tokens = 60;
  return options;
}

TEST(ObserverThreadTest, AReplyIsWrittenToItsEndWhileTheScreenIsStuckAtItsBeginning) {
  const SessionOptions options = Asked();
  const Written alone = Alone(options.prompt, {}, options.stops, true);
  LocalHost host;
  Gate finished;
  LocalVerifier local(host.driver(), {});
  Watched watched(local, finished);
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, watched);
  StuckScreen screen(finished);
  ASSERT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok());
  EXPECT_EQ(screen.text(), alone.text);
  std::vector<TokenId> all = options.prompt;
  all.insert(all.end(), screen.tokens().begin(), screen.tokens().end());
  EXPECT_EQ(all, alone.tokens);
  EXPECT_LE(screen.pieces().size(), 3u) << "what waits is joined";
}

TEST(ObserverThreadTest, AReplyIsInterruptedWhileTheScreenIsStuck) {
  SessionOptions options = Asked();
  options.stops = {};
  LocalHost host;
  LocalVerifier verifier(host.driver(), {});
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, verifier);
  Gate noticed;
  StuckScreen screen(noticed);
  screen.Interrupt();
  ASSERT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok());
  EXPECT_EQ(drafted.driver().finish(), v1::FINISH_NONE);
  const auto committed = drafted.session().committed();
  std::vector<TokenId> all = options.prompt;
  all.insert(all.end(), screen.tokens().begin(), screen.tokens().end());
  EXPECT_EQ(all, std::vector(committed.begin(), committed.end())) << "all of it is told";
}

TEST(ObserverThreadTest, WhatWaitsIsBoundedAndNoTextIsLost) {
  Gate gate;
  StuckScreen screen(gate);
  ObserverThread told;
  told.Begin(screen);
  told.Commit({}, "a");
  told.Wake();
  screen.AwaitStuck();
  for (uint32_t i = 0; i < 100; ++i) {
    const TokenId token = static_cast<TokenId>(i);
    told.Commit({&token, 1}, "b");
    told.Progress(i, 100);
    told.Report(absl::UnavailableError("no"));
    told.Wake();
  }
  gate.Open();
  told.Finish();
  EXPECT_THAT(screen.pieces(), ElementsAre("a", std::string(100, 'b')));
  EXPECT_EQ(screen.tokens().size(), 100u);
  EXPECT_THAT(screen.progress(), ElementsAre(99u));
  EXPECT_EQ(screen.reports(), ObserverThread::kReportsMax);
}

}  // namespace
}  // namespace outrider
