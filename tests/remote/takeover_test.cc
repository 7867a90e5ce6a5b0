// Who takes a session over from the stream that has it: whoever has its newest token and its key, and
// nobody else, whatever attempt he says it is.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tokens/token_history.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "server/security/keys.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using Kind = v1::ServerMessage::KindCase;

// A stream that says what it is told, and keeps what it hears.
class Line final : private Verifier::Listener {
 public:
  Line(Verifier& verifier, uint64_t number) : verifier_(verifier), number_(number) {
    verifier_.Open(number_, *this);
  }
  ~Line() override {
    verifier_.Close(number_);
    MutexLock lock(mu_);
    while (!is_down_) changed_.Wait(mu_);
  }

  void Say(v1::ClientMessage message) {
    MutexLock lock(mu_);
    while (is_writing_ && !is_down_) changed_.Wait(mu_);
    is_writing_ = true;
    verifier_.Send(number_, message);
  }
  // The next of such a kind, or of a fault; empty: the stream has ended, or it takes too long.
  v1::ServerMessage Hear(Kind kind) {
    const MonotonicTime until = RealClock().Now() + std::chrono::seconds(30);
    MutexLock lock(mu_);
    for (;;) {
      for (; heard_ < came_.size(); ++heard_) {
        const Kind of = came_[heard_].kind_case();
        if (of == kind || of == Kind::kFault) return came_[heard_++];
      }
      if (is_down_ || !changed_.WaitUntil(mu_, until)) return {};
    }
  }

 private:
  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    verifier_.Read(stream);
    MutexLock lock(mu_);
    came_.push_back(std::move(message));
    changed_.NotifyAll();
  }
  void OnWritten(uint64_t) override {
    MutexLock lock(mu_);
    is_writing_ = false;
    changed_.NotifyAll();
  }
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(mu_);
    is_down_ = true;
    changed_.NotifyAll();
  }

  Verifier& verifier_;
  const uint64_t number_;
  Mutex mu_;
  CondVar changed_;
  std::vector<v1::ServerMessage> came_ ABSL_GUARDED_BY(mu_);
  size_t heard_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_down_ ABSL_GUARDED_BY(mu_) = false;
};

class TakeoverTest : public testing::Test {
 protected:
  TakeoverTest() {
    const std::string lines =
        Concat(LineOf("device", key_), "\n", LineOf("thief", other_key_), "\n");
    std::ofstream(dir_.File("keys")) << lines;
    server_ = std::make_unique<ServerProcess>(
        0, std::vector<std::string>{"--sessions", "16", "--keys", dir_.File("keys")});
    device_ = OrDie(RemoteVerifier::Connect(server_->address(), {.key = key_}));
    thief_ = OrDie(RemoteVerifier::Connect(server_->address(), {.key = other_key_}));
  }

  v1::ClientMessage Opening() const {
    v1::ClientMessage message;
    v1::Open& open = *message.mutable_open();
    open.set_nonce(77);
    open.set_attempt(1);
    open.set_dry_policy(v1::DRY_POLICY_WAIT);
    SetPrompt(prompt_, open);
    return message;
  }
  v1::ClientMessage Resuming(const std::string& token, uint32_t attempt) const {
    v1::ClientMessage message;
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(session_);
    resume.set_token(token);
    uint64_t hash = 0;
    for (const TokenId id : prompt_) hash = TokenHistory::Extend(hash, id);
    resume.set_length(static_cast<uint32_t>(prompt_.size()));
    resume.set_hash(hash);
    resume.set_attempt(attempt);
    return message;
  }
  static v1::ClientMessage Go(uint32_t seen) {
    v1::ClientMessage message;
    message.mutable_grow()->set_seen(seen);
    message.mutable_grow()->set_go(true);
    return message;
  }

  // What whoever says that first is told.
  v1::ServerMessage Try(Verifier& as, const v1::ClientMessage& first) {
    Line line(as, ++number_);
    line.Say(first);
    return line.Hear(first.has_open() ? Kind::kOpened : Kind::kResumed);
  }

  const std::vector<TokenId> prompt_ = TheTokenizer().Encode("Once upon a time");
  const std::string key_ = NewKey();
  const std::string other_key_ = NewKey();
  ScratchDir dir_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<RemoteVerifier> device_;
  std::unique_ptr<RemoteVerifier> thief_;
  std::string session_;
  uint64_t number_ = 100;
};

TEST_F(TakeoverTest, NeedsTheNewestTokenAndTheKey) {
  Line first(*device_, 1);
  first.Say(Opening());
  const v1::Opened opened = first.Hear(Kind::kOpened).opened();
  ASSERT_FALSE(opened.token().empty());
  session_ = opened.session();

  Line second(*device_, 2);
  second.Say(Resuming(opened.token(), 2));
  const v1::Resumed resumed = second.Hear(Kind::kResumed).resumed();
  ASSERT_FALSE(resumed.token().empty());
  EXPECT_EQ(first.Hear(Kind::kFault).fault().kind(), v1::Fault::SUPERSEDED);
  // By its verdict one knows that it was heard, and so that only the newest token is good.
  second.Say(Go(0));
  ASSERT_TRUE(second.Hear(Kind::kVerdict).has_verdict());

  for (const uint32_t attempt : {1u, 2u, 3u, 1000u, UINT32_MAX}) {
    SCOPED_TRACE(attempt);
    EXPECT_EQ(Try(*device_, Resuming(opened.token(), attempt)).fault().kind(),
              v1::Fault::UNKNOWN_SESSION);
    EXPECT_EQ(Try(*device_, Resuming(std::string(16, 't'), attempt)).fault().kind(),
              v1::Fault::UNKNOWN_SESSION);
    // The newest token, stolen, and another key.
    EXPECT_EQ(Try(*thief_, Resuming(resumed.token(), attempt)).fault().kind(),
              v1::Fault::UNKNOWN_SESSION);
    // Its nonce, and its own Open.
    v1::ClientMessage open = Opening();
    open.mutable_open()->set_attempt(attempt);
    EXPECT_TRUE(Try(*device_, open).has_fault());
  }

  // None of them has disturbed it, nor spoilt the attempts of its own that are to come.
  second.Say(Go(1));
  EXPECT_TRUE(second.Hear(Kind::kVerdict).has_verdict());
  EXPECT_TRUE(Try(*device_, Resuming(resumed.token(), 3)).has_resumed());
}

}  // namespace
}  // namespace outrider
