// A target that takes its time: what it says is another target's, and every run lasts as long as a
// profile says of its rows.
//
//   PacedTarget paced(target, *TimeProfile::Parse("1:20,16:28"));
//   ... as any target ...
//   paced.lateness()                  // runs that the other one took longer for than they may last
//
// So a small model, which this machine computes in a moment, has the text and the acceptance of its
// own and the price of a large one on a processor that is not here. Rows are those of passes and of
// what is read, as in the simulator. Until a run's time is over its thread sleeps: it computes
// nothing, as this machine's processor does not while another one computes. What has to be computed
// here is computed on a thread whose turns come like others' (thread_turn.h): those that wait for a
// verdict are not to wait for that. What exits guess is told when as much of that time is over as of
// the layers is before them.
//
// Threads: as the target's.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/simulator/world/time_profile.h"
#include "common/base/monotonic_time.h"
#include "common/engine/other_target.h"

namespace outrider {

class PacedTarget final : public OtherTarget, private ExitSink {
 public:
  struct Lateness {
    uint64_t run_count = 0;
    uint64_t late_count = 0;
    Duration most{0};  // by which one was
  };

  // `target` outlives it.
  PacedTarget(Target& target, TimeProfile pace) : OtherTarget(target), pace_(std::move(pace)) {}

  const Lateness& lateness() const { return lateness_; }

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;
  void HearExits(ExitSink* sink) override;

 private:
  void Compute(std::span<Reading> readings, std::span<const Pass> passes,
               std::span<PassResult> results);
  void OnGuess(const ExitGuess& guess) override { guesses_.push_back(guess); }
  void OnExitTime(uint32_t exit, Duration time) override { sink_->OnExitTime(exit, time); }
  void TellGuesses(MonotonicTime begin, Duration time);

  const TimeProfile pace_;
  Lateness lateness_;
  ExitSink* sink_ = nullptr;
  std::vector<ExitGuess> guesses_;  // of the present run, by rising layer
};

}  // namespace outrider
