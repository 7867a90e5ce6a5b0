// What the target does between two decisions of the verifier machine, and what came of it.
//
// The machine fills a run in and hands it out (VerifierMachine::RunTarget); whoever has the target
// executes it, on a thread of its own or in virtual time, and hands it back (TargetDone). Until
// then the machine leaves alone what the run refers to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/monotonic_time.h"
#include "common/engine/device_work.h"
#include "common/engine/engine.h"
#include "common/engine/target.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"
#include "common/tokens/token_history.h"

namespace outrider {

// The first tokens of another sequence.
struct TargetFork {
  SequenceId from;
  uint32_t length;
};

// One session's part, in the order of its fields. The first step that fails is the last one.
struct TargetWork {
  uint64_t session;                    // for HintFound
  std::optional<TargetFork> fork;      // what `sequence` begins as: before anything else of the run
  std::optional<SequenceId> sequence;  // none: one is created, and stands here afterwards
  std::optional<Outcome> commit;       // of its last pass
  std::optional<uint32_t> truncate_to;  // tokens
  std::span<const TokenId> prompt;      // read after those
  bool has_pass = false;
  bool is_guessed = false;  // by exits
  std::span<const DraftedNode> nodes;
  std::span<const TokenId> candidates;  // Pass
  const Chooser* chooser = nullptr;
  const TokenHistory* history = nullptr;

  // Results.
  absl::Status status;
  Outcome outcome{};  // of the pass, when the status is OK
  Pruned pruned{};    // of it
  Duration cost{};    // its part of the run's time, once that is over
};

struct TargetRun {
  std::vector<SequenceId> closed;  // before anything else, and right after they were forked
  std::vector<TargetWork> works;
  std::vector<bool> exits_on;       // by exit; those that are not here are on
  Pruning pruning = Pruning::kOff;  // of all passes

  // Results.
  // All of it goes through the target together; these are its share of the time by rows.
  Duration prompt_time{};                 // of all that was read
  Duration pass_time{};                   // of all passes
  std::vector<Duration> exit_time;        // by exit, and part of those
  std::optional<DeviceWork> device_work;  // none: the target's device keeps no account
};

// Executes runs on a target. Working memory stays from one to the next.
class TargetRunner final : private ExitSink {
 public:
  // In the middle of a run, on its thread: what an exit guesses of a session's pass.
  using HearGuess = std::function<void(uint64_t session, const ExitGuess& guess)>;

  // Both outlive it. Time is only asked for around what takes some. Without `hear` nothing is
  // guessed.
  TargetRunner(Target& target, const Clock& clock, HearGuess hear = nullptr);
  ~TargetRunner() override;

  void Execute(TargetRun& run);

 private:
  void OnGuess(const ExitGuess& guess) override;
  void OnExitTime(uint32_t exit, Duration time) override;
  void SwitchExits(TargetRun& run);
  void ForkAndClose(TargetRun& run);
  void ForkFrom(SequenceId sequence, TargetRun& run);
  absl::Status Fork(TargetWork& work);
  absl::Status Prepare(TargetWork& work);
  void ShareOut(Duration time, TargetRun& run) const;

  Target& target_;
  const Clock& clock_;
  const HearGuess hear_;
  std::vector<bool> exits_on_;  // as the target has them
  TargetRun* run_ = nullptr;    // that is being executed
  std::vector<Reading> readings_;
  std::vector<TargetWork*> reading_;  // works of readings_
  std::vector<Pass> passes_;
  std::vector<TargetWork*> passing_;  // works of passes_
  std::vector<PassResult> results_;
};

}  // namespace outrider
