// One script of events, and three verifiers it is played to: in this process, at a server over a
// socket, and at the simulator's host. They have one target's text, and so they give the same
// answers, but for names, tokens and times.
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/simulator/sources/synthetic_target.h"
#include "bench/simulator/sources/text.h"
#include "bench/simulator/sources/vocabulary.h"
#include "bench/simulator/world/host.h"
#include "client/verifier/local_verifier.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tokens/growth_bits.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/verifier_driver.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/remote/served_here.h"

namespace outrider {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Answers = std::vector<std::string>;

constexpr double kHintProbability = 0.5;
constexpr SyntheticTarget::Options kTarget = {
    .context_length = 64, .node_count_max = 7, .sequence_count_max = 4};

const Tokenizer& Vocabulary() {
  static const std::unique_ptr<Tokenizer> tokenizer = MakeVocabulary(64);
  return *tokenizer;
}

VerifierConfig ScriptConfig(const TargetInfo& info) {
  VerifierConfig config = ConfigFor(info, Vocabulary());
  config.exit_depths = {500};
  return config;
}

// The text of all three.
const Text& ScriptText() {
  static const HashedText text{{.seed = 3, .vocabulary_size = 64}};
  return text;
}

// What an exit guesses: the token after the root.
Outcome GuessAt(const TokenHistory& history, const Chooser& chooser) {
  return {DraftedNode::kRoot, ScriptText().After(RootOf(history), chooser)};
}

// A target with an exit, which guesses before anything else is done.
class GuessedTarget final : public SyntheticTarget {
 public:
  GuessedTarget() : SyntheticTarget(kTarget, ScriptText()) {}

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    size_t guess_count = 0;
    for (size_t i = 0; i < passes.size(); ++i) {
      if (!passes[i].is_guessed) continue;
      ++guess_count;
      sink_->OnGuess({.exit = 0,
                      .layer = 0,
                      .walk = i,
                      .outcome = GuessAt(*passes[i].history, *passes[i].chooser),
                      .evidence = {},
                      .probability = kHintProbability,
                      .ranked = {}});
    }
    if (guess_count > 0) after_guesses(guess_count);
    SyntheticTarget::Run(readings, passes, results);
  }
  void HearExits(ExitSink* sink) override { sink_ = sink; }

  std::function<void(size_t count)> after_guesses;

 private:
  ExitSink* sink_ = nullptr;
};

// The same guesses, for the simulator's host.
class ScriptExits final : public Exits {
 public:
  std::span<const double> depths() const override { return depths_; }
  Hint Guess(size_t, const Place& root, std::span<const DraftedNode>,
             const Outcome&) const override {
    return {{DraftedNode::kRoot, ScriptText().After(root, chooser_)}, kHintProbability};
  }

 private:
  const std::vector<double> depths_ = {0.5};
  const Chooser chooser_ = *Chooser::Create({}, 64);
};

// --- three verifiers ---

// One of them, as the script sees it.
class Verifying {
 public:
  virtual ~Verifying() = default;

  virtual void Open(uint64_t stream) = 0;
  virtual void Send(uint64_t stream, v1::ClientMessage message) = 0;
  // What comes next on this stream: a message, or the status that it ended with.
  virtual std::variant<v1::ServerMessage, absl::Status> Await(uint64_t stream) = 0;
  virtual void Close(uint64_t stream) = 0;
  virtual void Drain() = 0;
};

// Behind a Verifier, with threads of its own.
class BehindVerifier : public Verifying, private Verifier::Listener {
 public:
  void Open(uint64_t stream) override {
    {
      MutexLock lock(mu_);
      inboxes_[stream].can_send = true;
    }
    verifier().Open(stream, *this);
  }

  void Send(uint64_t stream, v1::ClientMessage message) override {
    {
      MutexLock lock(mu_);
      Inbox& inbox = inboxes_.at(stream);
      while (!inbox.can_send) changed_.Wait(mu_);
      inbox.can_send = false;
    }
    verifier().Send(stream, message);
  }

  std::variant<v1::ServerMessage, absl::Status> Await(uint64_t stream) override {
    v1::ServerMessage message;
    {
      MutexLock lock(mu_);
      Inbox& inbox = inboxes_.at(stream);
      const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(30);
      while (inbox.messages.empty() && !inbox.end) {
        if (!changed_.WaitUntil(mu_, deadline)) return absl::DeadlineExceededError("no answer");
      }
      if (inbox.messages.empty()) return *inbox.end;
      message = std::move(inbox.messages.front());
      inbox.messages.pop_front();
    }
    verifier().Read(stream);
    return message;
  }

  void Close(uint64_t stream) override {
    verifier().Close(stream);
    AwaitEnd(stream);
  }
  void Drain() override { driver_->Drain(std::chrono::seconds(30)); }

 protected:
  BehindVerifier()
      : machine_(ScriptConfig(target_.info()), {Vocabulary(), [this] { return ++bits_; }}),
        driver_(std::make_unique<VerifierDriver>(machine_, target_, nullptr, VerifierDriver::Log(),
                                                 run_clock_)) {
    target_.after_guesses = [this](size_t count) { AwaitHints(count); };
  }

  virtual Verifier& verifier() = 0;
  void EndAll() {
    std::vector<uint64_t> streams;
    {
      MutexLock lock(mu_);
      for (const auto& [stream, inbox] : inboxes_) streams.push_back(stream);
    }
    for (const uint64_t stream : streams) Close(stream);
  }

  uint64_t bits_ = 0;
  // Runs take no time to it: no row is dear by chance, so that nobody would want hints.
  FakeClock run_clock_;
  GuessedTarget target_;
  VerifierMachine machine_;
  std::unique_ptr<VerifierDriver> driver_;

 private:
  struct Inbox {
    std::deque<v1::ServerMessage> messages;
    std::optional<absl::Status> end;
    bool can_send = false;
  };

  // The layers after the exit take until all hints have come: none is overtaken by its verdict.
  void AwaitHints(size_t count) {
    MutexLock lock(mu_);
    awaited_hint_count_ += count;
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(30);
    while (hint_count_ < awaited_hint_count_ && changed_.WaitUntil(mu_, deadline)) continue;
  }

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    MutexLock lock(mu_);
    if (message.has_hint()) ++hint_count_;
    inboxes_.at(stream).messages.push_back(std::move(message));
    changed_.NotifyAll();
  }
  void OnWritten(uint64_t stream) override {
    MutexLock lock(mu_);
    inboxes_.at(stream).can_send = true;
    changed_.NotifyAll();
  }
  void OnDown(uint64_t stream, const absl::Status& status) override {
    MutexLock lock(mu_);
    inboxes_.at(stream).end = status;
    inboxes_.at(stream).can_send = true;
    changed_.NotifyAll();
  }

  void AwaitEnd(uint64_t stream) {
    MutexLock lock(mu_);
    while (!inboxes_.at(stream).end) changed_.Wait(mu_);
  }

  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, Inbox> inboxes_ ABSL_GUARDED_BY(mu_);
  size_t hint_count_ ABSL_GUARDED_BY(mu_) = 0;
  size_t awaited_hint_count_ ABSL_GUARDED_BY(mu_) = 0;
};

class InThisProcess final : public BehindVerifier {
 public:
  ~InThisProcess() override { EndAll(); }

 private:
  Verifier& verifier() override { return verifier_; }

  LocalVerifier verifier_{*driver_, {}};
};

class AtAServer final : public BehindVerifier {
 public:
  ~AtAServer() override { EndAll(); }

 private:
  Verifier& verifier() override { return served_.verifier(); }

  ServedHere served_{*driver_, 4096};
};

class AtTheSimulatorsHost final : public Verifying {
 public:
  AtTheSimulatorsHost()
      : host_(events_,
              {.config = ScriptConfig(SyntheticTarget(kTarget, ScriptText()).info()),
               .pass_time = TimeProfile::Constant(std::chrono::milliseconds(20))},
              {Vocabulary(), ScriptText(), exits_}) {}

  void Open(uint64_t stream) override {
    lines_[stream] = std::make_unique<Line>(events_);
    host_.Accept(lines_[stream]->connection, "", 0);
  }
  void Send(uint64_t stream, v1::ClientMessage message) override {
    lines_.at(stream)->connection.Write(End::kDevice,
                                        FrameOf(FrameKind::kMessage, message.SerializeAsString()));
  }
  std::variant<v1::ServerMessage, absl::Status> Await(uint64_t stream) override {
    Line& line = *lines_.at(stream);
    for (;;) {
      if (const std::optional<Frame> frame = line.frames.Next()) {
        if (frame->kind == FrameKind::kStatus) return StatusIn(*frame);
        v1::ServerMessage message;
        OUTRIDER_CHECK(
            message.ParseFromArray(frame->content.data(), static_cast<int>(frame->content.size())),
            "bytes on the link are as they were written");
        return message;
      }
      OUTRIDER_CHECK(events_.RunNext(), "what is awaited comes");
    }
  }
  // The host hears of it before it hears anything that is sent after.
  void Close(uint64_t stream) override { lines_.at(stream)->connection.Close(End::kDevice); }
  void Drain() override { host_.Drain(std::chrono::seconds(30)); }

 private:
  struct Line final : Connection::Listener {
    explicit Line(EventQueue& events) : connection(events, {}, 1, std::nullopt) {
      connection.Attach(End::kDevice, *this);
    }
    void OnBytes(std::string_view bytes) override { frames.Add(bytes); }
    void OnRoom() override {}
    void OnEnd() override {}

    Connection connection;
    FrameReader frames;
  };

  EventQueue events_;
  ScriptExits exits_;
  std::map<uint64_t, std::unique_ptr<Line>> lines_;
  Host host_;
};

// --- the script ---

v1::ClientMessage OpenOf(uint64_t nonce, const std::vector<TokenId>& prompt = {5, 9, 17, 33}) {
  v1::ClientMessage message;
  v1::Open& open = *message.mutable_open();
  open.set_nonce(nonce);
  open.set_attempt(1);
  open.set_hints(true);
  open.set_dry_policy(v1::DRY_POLICY_WAIT);
  SetPrompt(prompt, open);
  return message;
}

// Plays the script, and writes down what is answered.
class Script {
 public:
  explicit Script(Verifying& verifying) : verifying_(verifying) {}

  Answers Play() {
    RefusesWhatIsWrong();
    OpensGrowsAndHints();
    EditsAndGoesOn();
    ResumesAndFences();
    DrainsAndCloses();
    return std::move(answers_);
  }

 private:
  void RefusesWhatIsWrong() {
    verifying_.Open(1);
    verifying_.Send(1, Append({7}));
    Hear(1, 2);
    verifying_.Open(2);
    v1::ClientMessage other = OpenOf(2);
    other.mutable_open()->set_numerics_id("feed");
    verifying_.Send(2, other);
    Hear(2, 2);
  }

  void OpensGrowsAndHints() {
    verifying_.Open(3);
    verifying_.Send(3, OpenOf(3));
    Hear(3, 1);
    verifying_.Send(3, Grow({60, 61}));  // which no target of ours would write
    Hear(3, 2);                          // a hint, and the verdict
    verifying_.Send(3, Grow({}));
    Hear(3, 2);
    verifying_.Send(3, Grow(Next(3)));  // which it does write
    Hear(3, 2);
  }

  void EditsAndGoesOn() {
    v1::ClientMessage truncate;
    truncate.mutable_truncate()->set_length(5);
    verifying_.Send(3, truncate);
    committed_.resize(5);
    verifying_.Send(3, Append({20, 21}));
    last_id_ = 0;
    verifying_.Send(3, Grow({}));
    Hear(3, 2);
  }

  void ResumesAndFences() {
    verifying_.Close(3);
    const std::string lost = token_;
    verifying_.Open(4);
    verifying_.Send(4, Resume(2));
    Hear(4, 1);
    verifying_.Send(4, Grow({}));
    Hear(4, 2);
    verifying_.Open(5);
    verifying_.Send(5, Resume(9));
    Hear(5, 1);
    Hear(4, 2);  // fenced
    verifying_.Open(6);
    verifying_.Send(6, Resume(3));
    Hear(6, 2);  // late
    verifying_.Send(5, Grow({}));
    Hear(5, 2);
    token_ = lost;
    verifying_.Open(7);
    verifying_.Send(7, Resume(10));
    Hear(7, 2);
  }

  void DrainsAndCloses() {
    verifying_.Drain();
    Hear(5, 1);
    verifying_.Open(8);
    verifying_.Send(8, OpenOf(8));
    Hear(8, 2);
    verifying_.Send(5, Grow({}));
    Hear(5, 2);
    v1::ClientMessage close;
    close.mutable_close();
    verifying_.Send(5, close);
    Hear(5, 1);
  }

  // The next answers of a stream.
  void Hear(uint64_t stream, int count) {
    for (int i = 0; i < count; ++i) {
      auto answer = verifying_.Await(stream);
      if (const auto* const status = std::get_if<absl::Status>(&answer)) {
        answers_.push_back(Concat(stream, " ends: ", absl::StatusCodeToString(status->code())));
      } else {
        Hear(stream, std::get<v1::ServerMessage>(answer));
      }
    }
  }

  void Hear(uint64_t stream, v1::ServerMessage& message) {
    if (message.has_opened()) {
      session_ = message.opened().session();
      token_ = message.opened().token();
      committed_ = {5, 9, 17, 33};
      message.mutable_opened()->clear_session();
      message.mutable_opened()->clear_token();
    } else if (message.has_resumed()) {
      token_ = message.resumed().token();
      last_id_ = 0;
      message.mutable_resumed()->clear_token();
    } else if (message.has_verdict()) {
      v1::Verdict& verdict = *message.mutable_verdict();
      ++verdict_;
      for (uint32_t i = 0; verdict.leaf_back() > 0 && i < verdict.nodes(); ++i) {
        committed_.push_back(grown_.at(i));
      }
      committed_.push_back(static_cast<TokenId>(verdict.next()));
      verdict.clear_pass_us();
      verdict.clear_since_seen_us();
    } else if (message.has_draining()) {
      message.mutable_draining()->clear_deadline_ms();
    }
    answers_.push_back(Concat(stream, " says: ", message.ShortDebugString()));
  }

  // A chain below the root, and `go`.
  v1::ClientMessage Grow(const std::vector<TokenId>& tokens) {
    v1::ClientMessage message;
    v1::Grow& grow = *message.mutable_grow();
    grow.set_seen(verdict_);
    grow.set_first_id(last_id_ + 1);
    std::vector<GrownNode> nodes;
    for (const TokenId token : tokens) {
      nodes.push_back({nodes.empty() ? 0U : 1U, 0, static_cast<uint32_t>(token)});
    }
    ToldTokens told;
    WriteGrowthBits(nodes, told, *grow.mutable_nodes());
    last_id_ += static_cast<uint32_t>(tokens.size());
    grown_ = tokens;
    grow.set_go(true);
    return message;
  }

  v1::ClientMessage Append(const std::vector<TokenId>& tokens) {
    v1::ClientMessage message;
    message.mutable_append()->set_length(static_cast<uint32_t>(committed_.size()));
    for (const TokenId token : tokens) {
      message.mutable_append()->add_tokens(static_cast<uint32_t>(token));
      committed_.push_back(token);
    }
    return message;
  }

  v1::ClientMessage Resume(uint32_t attempt) {
    v1::ClientMessage message;
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(session_);
    resume.set_token(token_);
    resume.set_length(static_cast<uint32_t>(committed_.size()));
    resume.set_hash(History().hash());
    resume.set_attempt(attempt);
    return message;
  }

  TokenHistory History() const {
    TokenHistory history({.vocabulary_size = 64, .capacity = 64});
    OUTRIDER_CHECK_OK(history.Append(committed_));
    return history;
  }

  // What the target writes from here.
  std::vector<TokenId> Next(size_t count) const {
    const Chooser chooser = *Chooser::Create({}, 64);
    TokenHistory history = History();
    std::vector<TokenId> next;
    while (next.size() < count) {
      next.push_back(GuessAt(history, chooser).next);
      OUTRIDER_CHECK_OK(history.Append({&next.back(), 1}));
    }
    return next;
  }

  Verifying& verifying_;
  Answers answers_;
  std::string session_;
  std::string token_;
  std::vector<TokenId> committed_;
  std::vector<TokenId> grown_;  // by the last growth
  uint32_t verdict_ = 0;
  uint32_t last_id_ = 0;
};

Answers Play(std::unique_ptr<Verifying> verifying) {
  return Script(*verifying).Play();
}

TEST(ConformanceTest, AllVerifiersGiveTheSameAnswers) {
  const Answers here = Play(std::make_unique<InThisProcess>());
  EXPECT_THAT(Play(std::make_unique<AtAServer>()), ElementsAreArray(here));
  EXPECT_THAT(Play(std::make_unique<AtTheSimulatorsHost>()), ElementsAreArray(here));
}

// Whatever passes share a run: every session gets hints of its own pass, and its own text.
TEST(ConformanceTest, FourSessionsAtOnceHearOfTheirOwnPasses) {
  constexpr int kVerdicts = 12;
  const Chooser chooser = *Chooser::Create({}, 64);
  InThisProcess verifying;
  std::vector<TokenHistory> texts;
  for (uint64_t stream = 1; stream <= 4; ++stream) {
    const std::vector<TokenId> prompt = {static_cast<TokenId>(10 * stream), 5, 9};
    texts.emplace_back(TokenHistory::Options{.vocabulary_size = 64, .capacity = 64});
    OUTRIDER_CHECK_OK(texts.back().Append(prompt));
    verifying.Open(stream);
    verifying.Send(stream, OpenOf(stream, prompt));
  }
  const auto hear = [&](uint64_t stream) {
    auto answer = verifying.Await(stream);
    const auto* const message = std::get_if<v1::ServerMessage>(&answer);
    return message ? *message : v1::ServerMessage();
  };
  for (uint64_t stream = 1; stream <= 4; ++stream) ASSERT_TRUE(hear(stream).has_opened());
  for (int verdict = 0; verdict < kVerdicts; ++verdict) {
    v1::ClientMessage go;
    go.mutable_grow()->set_seen(static_cast<uint32_t>(verdict));
    go.mutable_grow()->set_go(true);
    for (uint64_t stream = 1; stream <= 4; ++stream) verifying.Send(stream, go);
    for (uint64_t stream = 1; stream <= 4; ++stream) {
      const TokenId next = GuessAt(texts[stream - 1], chooser).next;
      ASSERT_EQ(hear(stream).hint().next(), static_cast<uint32_t>(next));
      ASSERT_EQ(hear(stream).verdict().next(), static_cast<uint32_t>(next));
      OUTRIDER_CHECK_OK(texts[stream - 1].Append({&next, 1}));
    }
  }
}

TEST(ConformanceTest, TheScriptHasSomethingOfEverything) {
  std::string all;
  for (const std::string& answer : Play(std::make_unique<InThisProcess>())) all += answer + "\n";
  for (const char* const part :
       {"opened", "resumed", "hint", "verdict", "leaf_back", "edits: 2", "draining", "MALFORMED",
        "MISMATCH", "SUPERSEDED", "UNKNOWN_SESSION", "DRAINING", "5 ends: OK"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

}  // namespace
}  // namespace outrider
