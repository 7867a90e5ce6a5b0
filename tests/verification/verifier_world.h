// A verifier machine with a scripted target and streams that a test holds the other ends of. Time
// passes when the target works or the test says so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/model/numerics_id.h"
#include "common/text/tokenizer.h"
#include "common/tokens/growth_bits.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/target_run.h"
#include "common/verification/wire_prompt.h"
#include "tests/text/small_specs.h"
#include "tests/verification/scripted_target.h"

namespace outrider {

inline std::vector<TokenId> Tokens(std::string_view text) {
  return std::vector<TokenId>(text.begin(), text.end());
}

inline const Tokenizer& ByteTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::Create(SmallByteLevel());
  return *tokenizer;
}

// Of a session of a whole context, and of a pass.
inline constexpr uint32_t kPagesOfOne = 256 / kPageTokens + 1;

// Small enough to see things fill up.
inline VerifierConfig SmallConfig() {
  VerifierConfig config;
  config.model_name = "scripted";
  config.numerics_id = "0123456789abcdef";
  config.tokenizer_fingerprint = "fedcba9876543210";
  config.vocabulary_size = static_cast<uint32_t>(ByteTokenizer().vocabulary_size());
  config.context_length = 256;
  config.pass_nodes_max = 15;
  config.sketch_nodes_max = 64;
  config.sequence_count_max = 8;
  config.page_groups = {{.page_count = 8 * kPagesOfOne}};
  config.forks_share_pages = true;
  config.unseen_verdicts_first = config.unseen_verdicts_max = 1000;
  return config;
}

class VerifierWorld {
 public:
  using Machine = VerifierMachine;
  using StreamNumber = Machine::StreamNumber;

  // A stream as the device sees it.
  struct Line {
    std::vector<v1::ServerMessage> received;
    std::optional<absl::Status> ended;
    bool can_send = false;  // the machine has asked for a message
    VerifierMachine::Work work = VerifierMachine::Work::kLittle;  // what of that is worth preparing
    bool writing = false;  // the machine has sent one that is not Written yet
  };

  explicit VerifierWorld(VerifierConfig config = SmallConfig(), ScriptedTarget::Times times = {})
      : target_({.model_name = config.model_name,
                 .numerics_id = {},
                 .vocabulary_size = config.vocabulary_size,
                 .context_length = config.context_length,
                 .node_count_max = config.pass_nodes_max,
                 .sequence_count_max = config.sequence_count_max,
                 .page_groups = config.page_groups,
                 .forks_share_pages = config.forks_share_pages},
                times, clock_),
        runner_(target_, clock_),
        machine_(std::move(config),
                 {ByteTokenizer(), [this] { return ++bits_ * 0x9e3779b97f4a7c15; }}) {}

  StreamNumber Connect(std::string_view key = "key", std::string_view origin = "",
                       const CallerTerms& terms = {}) {
    const StreamNumber stream = ++last_stream_;
    lines_[stream];
    Tell(Machine::StreamOpened{.stream = stream, .key = key, .terms = terms, .origin = origin});
    return stream;
  }

  void Send(StreamNumber stream, const v1::ClientMessage& message) {
    OUTRIDER_CHECK(lines_[stream].can_send, "the machine asks for every message");
    lines_[stream].can_send = false;
    Tell(Machine::Received{stream, message});
  }

  // The stream breaks, or its end is acknowledged.
  void Close(StreamNumber stream) { Tell(Machine::StreamClosed{stream}); }

  void Write(StreamNumber stream) {
    lines_[stream].writing = false;
    Tell(Machine::Written{stream});
  }

  void Pass(Duration time) {
    clock_.Advance(time);
    Tell(Machine::TimerFired{});
  }

  void Tell(const Machine::Event& event) {
    std::vector<Machine::Action> actions;
    machine_.Handle(event, clock_.Now(), actions);
    machine_.CheckInvariants();
    for (const Machine::Action& action : actions) {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
    if (!writes_at_once) return;
    for (auto& [stream, line] : lines_) {
      if (line.writing && !line.ended) Write(stream);
    }
  }

  // Executes the run that was asked for, and tells the machine. False: there is none.
  bool Run() {
    if (!run_) return false;
    runner_.Execute(*std::exchange(run_, nullptr));
    Tell(Machine::TargetDone{});
    return true;
  }

  // Runs until the target is idle; at most `count` runs.
  size_t Runs(size_t count = 1000) {
    size_t done = 0;
    while (done < count && Run()) ++done;
    return done;
  }

  Line& line(StreamNumber stream) { return lines_[stream]; }
  // What has been received since this was last asked.
  std::vector<v1::ServerMessage> News(StreamNumber stream) {
    return std::exchange(lines_[stream].received, {});
  }

  // Of a stream that was closed.
  void Forget(StreamNumber stream) { lines_.erase(stream); }

  Machine& machine() { return machine_; }
  ScriptedTarget& target() { return target_; }
  FakeClock& clock() { return clock_; }
  const TargetRun* run() const { return run_; }
  std::optional<MonotonicTime> timer() const { return timer_; }
  bool drained() const { return drained_; }
  bool writes_at_once = true;
  // What a log is told.
  std::vector<Machine::FaultFound> faults;
  std::vector<Machine::SessionOver> sessions_over;
  std::vector<Machine::StreamRefused> streams_refused;
  std::vector<DraftJob> drafts;                   // that were asked for
  std::map<uint64_t, std::vector<TokenId>> told;  // to whoever drafts, by session
  std::vector<uint64_t> forgotten;                // sessions, by their drafts

 private:
  void Do(const Machine::Read& read) {
    lines_[read.stream].can_send = true;
    lines_[read.stream].work = read.work;
  }
  void Do(const Machine::Send& send) {
    Line& line = lines_[send.stream];
    OUTRIDER_CHECK(!line.writing, "one write at a time");
    line.writing = true;
    line.received.push_back(*send.message);
  }
  void Do(const Machine::EndStream& end) {
    OUTRIDER_CHECK(!lines_[end.stream].ended, "a stream ends once");
    lines_[end.stream].ended = end.status;
  }
  void Do(const Machine::RunTarget& run) {
    OUTRIDER_CHECK(run_ == nullptr, "one run at a time");
    run_ = run.run;
  }
  void Do(const Machine::Draft& draft) { drafts.push_back(draft.job); }
  void Do(const Machine::ForgetDraft& forget) { forgotten.push_back(forget.session); }
  void Do(const Machine::SetTimer& set) { timer_ = set.at; }
  void Do(const Machine::Drained&) { drained_ = true; }
  void Do(const Machine::FaultFound& fault) { faults.push_back(fault); }
  void Do(const Machine::SessionOver& over) { sessions_over.push_back(over); }
  void Do(const Machine::StreamRefused& refused) { streams_refused.push_back(refused); }

  FakeClock clock_;
  ScriptedTarget target_;
  TargetRunner runner_;
  uint64_t bits_ = 0;
  Machine machine_;
  std::map<StreamNumber, Line> lines_;
  StreamNumber last_stream_ = 0;
  TargetRun* run_ = nullptr;
  std::optional<MonotonicTime> timer_;
  bool drained_ = false;
};

// --- messages ---

inline v1::ClientMessage OpenOf(uint64_t nonce, std::string_view prompt,
                                v1::DryPolicy dry_policy = v1::DRY_POLICY_WAIT) {
  v1::ClientMessage message;
  v1::Open& open = *message.mutable_open();
  open.set_nonce(nonce);
  SetPrompt(Tokens(prompt), open);
  open.set_dry_policy(dry_policy);
  open.set_attempt(1);
  return message;
}

// A chain below the root.
inline v1::ClientMessage ChainOf(uint32_t seen, uint32_t first_id, std::span<const TokenId> tokens,
                                 bool go = false) {
  v1::ClientMessage message;
  v1::Grow& grow = *message.mutable_grow();
  grow.set_seen(seen);
  grow.set_first_id(first_id);
  std::vector<GrownNode> nodes;
  for (const TokenId token : tokens) {
    nodes.push_back({nodes.empty() ? 0U : 1U, 1, static_cast<uint32_t>(token)});
  }
  ToldTokens told;
  WriteGrowthBits(nodes, told, *grow.mutable_nodes());
  grow.set_go(go);
  return message;
}

inline v1::ClientMessage GoOf(uint32_t seen) {
  return ChainOf(seen, 0, {}, true);
}

inline v1::ClientMessage AppendOf(uint32_t length, std::string_view text, bool reply = false) {
  v1::ClientMessage message;
  v1::Append& append = *message.mutable_append();
  append.set_length(length);
  append.set_reply(reply);
  for (const TokenId token : Tokens(text)) append.add_tokens(static_cast<uint32_t>(token));
  return message;
}

inline v1::ClientMessage TruncateOf(uint32_t length) {
  v1::ClientMessage message;
  message.mutable_truncate()->set_length(length);
  return message;
}

inline v1::ClientMessage CloseOf() {
  v1::ClientMessage message;
  message.mutable_close();
  return message;
}

}  // namespace outrider
