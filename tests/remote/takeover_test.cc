// Who takes a session over from the stream that has it: whoever has its newest token and its key, and
// nobody else, whatever attempt he says it is.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/tokens/token_history.h"
#include "gtest/gtest.h"
#include "server/security/keys.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/device_line.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using Kind = v1::ServerMessage::KindCase;

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
    DeviceLine line(as, ++number_);
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
  DeviceLine first(*device_, 1);
  first.Say(WaitingOpen(77, prompt_));
  const v1::Opened opened = first.Hear(Kind::kOpened).opened();
  ASSERT_FALSE(opened.token().empty());
  session_ = opened.session();

  DeviceLine second(*device_, 2);
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
    v1::ClientMessage open = WaitingOpen(77, prompt_);
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
