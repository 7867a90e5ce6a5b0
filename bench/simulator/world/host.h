// The server of a simulation: the real verifier machine, with streams of bytes on one side and a
// synthetic target in virtual time on the other.
//
// A run takes as long as its rows say, those of passes and the prompts' tokens: the weights are read
// once for all of them, and for a prompt alone, too. Hints come when their layers are done. A draft
// of its own, if it has one, is at one session's chain after the other's, beside the target or, where
// they share a processor, before or after its runs. The host can be restarted (everything it knows is gone, and for a while nobody
// answers) and drained.
//
// Threads: one. A host outlives the events it has scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/simulator/sources/sources.h"
#include "bench/simulator/sources/synthetic_target.h"
#include "bench/simulator/world/chance.h"
#include "bench/simulator/world/event_queue.h"
#include "bench/simulator/world/frames.h"
#include "bench/simulator/world/journal.h"
#include "bench/simulator/world/link.h"
#include "bench/simulator/world/processor.h"
#include "bench/simulator/world/time_profile.h"
#include "common/base/clock.h"
#include "common/text/tokenizer.h"
#include "common/verification/draft_runner.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/target_run.h"

namespace outrider {

class Host {
 public:
  struct Options {
    VerifierConfig config;
    TimeProfile pass_time = TimeProfile::Constant({});  // by rows: roots and drafted nodes
    // Of a prompt's token, beside what a run takes without it. Nothing: it is a row like others.
    std::optional<Duration> prompt_token_time = {};
    std::optional<Duration> draft_token_time = {};  // of its own draft; none: it has none
    double exit_share = 0;                          // of a pass's time, that every exit adds to it
    uint64_t seed = 0;
  };

  struct Parts {
    const Tokenizer& tokenizer;
    const Text& text;
    const Exits& exits;
    // What the draft here proposes for a device's session.
    std::function<const Drafts&(size_t device)> drafts = {};
    Journal* journal = nullptr;   // none: nothing is written down
    Processor* shared = nullptr;  // with whoever else has it; none: target and draft have their own
  };

  Host(EventQueue& events, Options options, Parts parts);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // A device has dialled. `key`: who it says it is. While the host is down, nobody is there.
  // `device` is its number in the journal.
  void Accept(Connection& connection, std::string key, size_t device);

  // Everything is gone. Answers again after `down`.
  void Restart(Duration down);
  void Drain(Duration grace);
  // Of all passes from the next on.
  void ScalePasses(double factor) { pass_time_factor_ = factor; }
  bool drained() const { return drained_; }

  // A session's part of a run: its rows' and its prompt's share of the time, as its machine counts
  // it.
  struct Part {
    size_t device;
    MonotonicTime end;
    Duration time;
  };

  const VerifierMachine& machine() const { return *machine_; }
  Duration busy() const { return busy_; }  // of the target
  uint64_t runs() const { return runs_; }  // with passes
  uint64_t passes() const { return passes_; }
  uint64_t rows() const { return rows_; }  // of all passes
  // Passes over growth that began the moment their session's pass before had ended.
  uint64_t ready_passes() const { return ready_passes_; }
  // Of all runs, as they ended.
  std::span<const Part> parts() const { return parts_of_runs_; }

 private:
  struct Stream final : Connection::Listener {
    void OnBytes(std::string_view bytes) override;
    void OnRoom() override;
    void OnEnd() override;
    void Deliver();

    Host* host = nullptr;
    uint64_t life = 0;  // of the host, in which it began
    VerifierMachine::StreamNumber number = 0;
    size_t device = 0;
    Connection* connection = nullptr;
    FrameReader frames;
    bool wanted = false;  // the machine has asked for a message
  };

  void Begin();
  void Tell(const VerifierMachine::Event& event);
  void Do(const VerifierMachine::Read& action);
  void Do(const VerifierMachine::Send& action);
  void Do(const VerifierMachine::EndStream& action);
  void Do(const VerifierMachine::RunTarget& action);
  void Do(const VerifierMachine::Draft& action);
  void Do(const VerifierMachine::ForgetDraft& action) { draft_runner_->Forget(action.session); }
  void Do(const VerifierMachine::SetTimer& action);
  void Do(const VerifierMachine::Drained&) { drained_ = true; }
  void Do(const VerifierMachine::FaultFound&) {}
  void Do(const VerifierMachine::SessionOver&) {}
  void Do(const VerifierMachine::StreamRefused&) {}
  void CountParts(const TargetRun& run, uint64_t rows, uint64_t prompt_tokens, MonotonicTime end);
  void CountPass(const TargetWork& work, MonotonicTime end);
  Duration TimeOf(uint64_t rows, uint64_t prompt_tokens) const;
  Duration AddExits(TargetRun& run, Duration time) const;
  void FindHints(const TargetRun& run, MonotonicTime begin, Duration time);

  // Does something later, unless the host has been restarted by then.
  template <typename Action>
  void Later(Duration delay, Action action) {
    events_.After(delay, [this, action = std::move(action), life = life_] {
      if (life == life_) action();
    });
  }

  EventQueue& events_;
  const Options options_;
  double pass_time_factor_ = 1;
  const Parts parts_;
  Draw draw_;
  Processor target_processor_;
  Processor draft_processor_;
  FakeClock clock_;  // stands still: a run takes no time of its own

  uint64_t life_ = 0;  // counts restarts
  bool up_ = true;
  bool drained_ = false;
  std::unique_ptr<SyntheticTarget> target_;
  std::unique_ptr<TargetRunner> runner_;
  std::unique_ptr<DraftRunner> draft_runner_;
  size_t drafting_for_ = 0;  // whose job is being executed
  std::unique_ptr<VerifierMachine> machine_;
  std::vector<VerifierMachine::Action> actions_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by number, of all lives
  uint64_t timer_ = 0;

  Duration busy_{0};
  uint64_t runs_ = 0;
  uint64_t passes_ = 0;
  uint64_t rows_ = 0;
  uint64_t ready_passes_ = 0;
  absl::flat_hash_map<uint64_t, MonotonicTime> pass_ends_;  // of each session's last pass
  std::vector<Part> parts_of_runs_;
};

}  // namespace outrider
