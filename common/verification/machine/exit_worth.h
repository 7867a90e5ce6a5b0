// Which of a target's exits earn their time.
//
// An exit earns where it is the first to name what the verdict says, and nothing had been grown
// below that yet: the device hears so much sooner where to draft. It costs what every session of
// the run waits for it. Both are added up over kTrial verdicts of passes that were guessed; an exit
// that has earned less than it cost is switched off for a while, and longer each time that it is
// tried again in vain. (Whether hints are of any use to a device, it says itself: nothing is
// guessed of passes of those that want none.)
//
//   worth.Spent(run.exit_time, sessions);        // after a run
//   worth.Judge(guesses, outcome, now);          // of each of its guessed passes
//   worth.on(exit)                               // for the next run
//
// Memory:  a few numbers an exit.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/tokens/outcome.h"

namespace outrider {

// What an exit has said of a pass that is running.
struct HeardGuess {
  uint32_t exit;
  Outcome outcome;
  MonotonicTime at;
  bool was_grown;  // there were nodes below the outcome already
};

class ExitWorth {
 public:
  static constexpr uint32_t kTrial = 256;
  static constexpr uint32_t kRest = 1024;  // verdicts, after the first trial in vain
  static constexpr uint32_t kRestMax = 64 * kRest;

  struct Counts {
    uint64_t guesses = 0;
    uint64_t right = 0;
    uint64_t first_right = 0;  // of them, those that no exit before had guessed
    uint64_t news = 0;         // of those, with nothing grown below
    Duration lead{};           // of the first, before their verdicts
    Duration time{};           // that it took
  };

  explicit ExitWorth(size_t exit_count) : exits_(exit_count) {}

  // What each exit of a run took, while `sessions` waited for the run.
  void Spent(std::span<const Duration> exit_time, size_t sessions);
  // A guessed pass has ended. Guesses are in the order in which they came.
  void Judge(std::span<const HeardGuess> guesses, const Outcome& outcome, MonotonicTime now);

  size_t exit_count() const { return exits_.size(); }
  bool on(size_t exit) const { return exits_[exit].rest == 0; }
  const Counts& counts(size_t exit) const { return exits_[exit].counts; }

 private:
  struct Exit {
    Duration earned{};
    Duration spent{};
    uint32_t verdicts = 0;  // of this trial
    uint32_t rest = 0;      // verdicts to go until the next one; 0: it is on
    uint32_t next_rest = kRest;
    Counts counts;
  };

  void EndVerdict(Exit& exit);

  std::vector<Exit> exits_;
};

}  // namespace outrider
