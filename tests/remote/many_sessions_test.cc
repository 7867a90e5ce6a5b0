// As many sessions at a time as --sessions says.
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/formats/models/exits_file.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/device_line.h"
#include "tests/remote/server_process.h"
#include "tests/remote/stories_exits.h"

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

TEST(ManySessionsTest, TwoHundredAreTwoHundredAndNoMore) {
  const ServerProcess server(0, {"--sessions", std::to_string(kSessions), "--context", "64"});
  Answers answers;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  for (uint64_t stream = 1; stream <= kSessions; ++stream) {
    verifier->Open(stream, answers);
    v1::ClientMessage open = WaitingOpen(stream, TheTokenizer().Encode("Once"));
    verifier->Send(stream, open);
  }
  answers.Await(kSessions);
  EXPECT_EQ(answers.opened, kSessions);
  EXPECT_EQ(answers.refused, 0u);

  verifier->Open(kSessions + 1, answers);
  v1::ClientMessage open = WaitingOpen(kSessions + 1, TheTokenizer().Encode("Once"));
  verifier->Send(kSessions + 1, open);
  answers.Await(kSessions + 1);
  EXPECT_EQ(answers.refused, 1u);
  for (uint64_t stream = 1; stream <= kSessions + 1; ++stream) verifier->Close(stream);
}

// --- all of them write ---

// Reads a session's text off its verdicts: the device drafts nothing.
class Texts final : public Verifier::Listener {
 public:
  // Before a stream is opened. It outlives the verifier, whose streams tell it that they are down.
  void ReadFrom(Verifier& verifier) { verifier_ = &verifier; }

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    Take(stream, message);
    verifier_->Read(stream);  // not before: the next one may come into the same memory
  }
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status&) override {}

  std::map<uint64_t, std::vector<TokenId>> Await(uint64_t count) {
    MutexLock lock(mu_);
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(60);
    while (ended_ < count && changed_.WaitUntil(mu_, deadline)) continue;
    return texts_;
  }

 private:
  void Take(uint64_t stream, const v1::ServerMessage& message) {
    MutexLock lock(mu_);
    if (message.has_fault()) ++ended_;
    if (!message.has_verdict()) return;
    texts_[stream].push_back(static_cast<TokenId>(message.verdict().next()));
    if (message.verdict().finish() != v1::FINISH_NONE) ++ended_;
    changed_.NotifyAll();
  }

  Verifier* verifier_ = nullptr;
  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, std::vector<TokenId>> texts_ ABSL_GUARDED_BY(mu_);
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
};

struct Asked {
  std::string prompt;
  SamplingOptions sampling;
};

// Of twenty kinds, greedy and sampled in turns.
Asked KindOf(uint64_t session) {
  constexpr std::array kPrompts = {"Once upon a time", "The dog", "A girl went", "One day, Tom",
                                   "Sue"};
  const uint64_t kind = session % 20;
  return {kPrompts[kind % kPrompts.size()], kind % 2 == 1 ? Sampled(kind) : SamplingOptions()};
}

// As many verdicts may be unseen before the server waits, so no device has to say anything.
constexpr uint32_t kTokens = 3;

v1::ClientMessage Writing(uint64_t session) {
  const Asked asked = KindOf(session);
  v1::ClientMessage message;
  v1::Open& open = *message.mutable_open();
  open.set_nonce(session);
  open.set_attempt(1);
  open.set_dry_policy(v1::DRY_POLICY_ALONE);
  open.mutable_stops()->set_max_tokens(kTokens);
  ToWire(asked.sampling, *open.mutable_sampling());
  SetPrompt(TheTokenizer().Encode(asked.prompt), open);
  return message;
}

TEST(ManySessionsTest, TwoHundredWriteWhatTheTargetAloneWould) {
  ASSERT_LE(kTokens, VerifierConfig().unseen_verdicts_first);
  const ServerProcess server(0, {"--sessions", std::to_string(kSessions), "--context", "64"});
  Texts texts;
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  texts.ReadFrom(*verifier);
  for (uint64_t stream = 1; stream <= kSessions; ++stream) {
    verifier->Open(stream, texts);
    v1::ClientMessage open = Writing(stream);
    verifier->Send(stream, open);
  }
  const auto written = texts.Await(kSessions);
  for (uint64_t stream = 1; stream <= kSessions; ++stream) verifier->Close(stream);
  ASSERT_EQ(written.size(), kSessions);
  std::map<uint64_t, std::vector<TokenId>> expected;
  for (uint64_t kind = 0; kind < 20; ++kind) {
    const Asked asked = KindOf(kind);
    const std::vector<TokenId> prompt = TheTokenizer().Encode(asked.prompt);
    std::vector<TokenId> all = Alone(prompt, asked.sampling, {.max_tokens = kTokens}, false).tokens;
    expected[kind].assign(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end());
  }
  for (const auto& [stream, tokens] : written) {
    EXPECT_EQ(tokens, expected.at(stream % 20)) << "session " << stream;
  }
}

// Devices with drafts of their own, and a server whose exits say what they like.
TEST(ManySessionsTest, TwoHundredThatDraftWriteWhatTheTargetAloneWould) {
  const ScratchDir dir;
  const std::string exits = dir.File("stories.exits.gguf");
  OUTRIDER_CHECK_OK(WriteExits(StoriesExits({1, 3}, 0.5f), exits));
  const ServerProcess server(0, {"--sessions", std::to_string(kSessions), "--context", "64",
                                 "--connects-per-second", "1000", "--exits", exits});
  const auto alone = [](uint64_t session, uint32_t tokens) {
    const SessionOptions story = StoryOf(session, tokens);
    return Alone(story.prompt, story.sampling, story.stops, true).tokens;
  };
  WriteBesideOthers(server.address(), kSessions, 12, alone);
}

}  // namespace
}  // namespace outrider
