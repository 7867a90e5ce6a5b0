#include "bench/emulators/paced_target.h"

#include <algorithm>
#include <thread>

#include "common/base/clock.h"

namespace outrider {
namespace {

size_t RowCount(std::span<const Reading> readings, std::span<const Pass> passes) {
  size_t count = 0;
  for (const Reading& reading : readings) count += reading.tokens.size();
  for (const Pass& pass : passes) count += 1 + pass.nodes.size();
  return count;
}

}  // namespace

void PacedTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                      std::span<PassResult> results) {
  const auto rows = static_cast<double>(RowCount(readings, passes));
  const Duration time = pace_.At(rows);
  const MonotonicTime begin = RealClock().Now();
  const MonotonicTime deadline = begin + time;
  guesses_.clear();
  Compute(readings, passes, results);
  TellGuesses(begin, time);
  const Duration late = RealClock().Now() - deadline;
  ++lateness_.run_count;
  if (late > Duration::zero()) {
    ++lateness_.late_count;
    lateness_.most = std::max(lateness_.most, late);
  }
  std::this_thread::sleep_until(deadline);
}

void PacedTarget::Compute(std::span<Reading> readings, std::span<const Pass> passes,
                          std::span<PassResult> results) {
  std::thread([&] { OtherTarget::Run(readings, passes, results); }).join();
}

void PacedTarget::HearExits(ExitSink* sink) {
  sink_ = sink;
  OtherTarget::HearExits(sink == nullptr ? nullptr : this);
}

void PacedTarget::TellGuesses(MonotonicTime begin, Duration time) {
  for (ExitGuess& guess : guesses_) {
    std::this_thread::sleep_until(begin + time * info().exit_depths[guess.exit] / 1000);
    guess.ranked = {};  // gone with the run
    sink_->OnGuess(guess);
  }
}

}  // namespace outrider
