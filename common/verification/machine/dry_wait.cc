#include "common/verification/machine/dry_wait.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

// Roots in a row without any growth after which none is expected.
constexpr uint32_t kSilentRootsMax = 4;
// Of a device that has never answered, or a target that has never run.
constexpr double kFirstWaitSeconds = 0.02;
// What W is to begin with counts as so many runs; it is a mean over so many at the most.
constexpr uint32_t kFirstWorthRuns = 16;
constexpr uint32_t kWorthRunsMax = 64;
// Most growth is there after so many times its mean delay.
constexpr double kUsuallyWithin = 1.2;
// From one wait that may be for nothing to the next, as a multiple of its time.
constexpr double kWaitEvery = 32;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void DryWait::RootKnown(uint32_t verdict, bool is_dry, std::optional<PassTime> pass,
                        MonotonicTime now) {
  verdict_ = verdict;
  roots_[verdict % roots_.size()] = now;
  ++silent_roots_;
  if (!is_dry) return;
  EndRun();
  alone_at_ = now + WaitFor(pass, now);
}

Duration DryWait::WaitFor(std::optional<PassTime> pass, MonotonicTime now) {
  if (silent_roots_ > kSilentRootsMax) return Duration(0);
  const auto [seconds, cost] = pass.value_or(PassTime{kFirstWaitSeconds, kFirstWaitSeconds});
  if (!delay_.value()) return FromSeconds(seconds);
  const double delay = *delay_.value();
  const bool is_due = now - last_wait_ > FromSeconds(kWaitEvery * delay);
  if (delay > worth_ * (seconds + kWorthToOthers * cost) && !is_due) return Duration(0);
  last_wait_ = now;
  return FromSeconds(2 * delay);
}

std::optional<MonotonicTime> DryWait::GrowthAt() const {
  if (!delay_.value() || silent_roots_ > kSilentRootsMax) return std::nullopt;
  return RootAt(verdict_) + FromSeconds(kUsuallyWithin * *delay_.value());
}

void DryWait::Grown(uint32_t seen, MonotonicTime now) {
  silent_roots_ = 0;
  const bool is_first = !answered_ || seen > *answered_;
  if (!is_first || verdict_ - seen >= roots_.size()) return;
  answered_ = seen;
  // What came while the prompt was still being read tells nothing.
  if (now > RootAt(seen)) delay_.Add(std::chrono::duration<double>(now - RootAt(seen)).count());
}

void DryWait::Yielded(bool grown, uint32_t tokens) {
  if (!grown) {
    EndRun();
    run_ = Run::kOfThePast;
  } else {
    if (run_ == Run::kNone) run_ = Run::kAfterWait;
    spared_ += tokens - 1;
  }
}

// One after the target went on alone is none after a wait until it has stood still again.
void DryWait::EndRun() {
  if (run_ == Run::kAfterWait) {
    run_count_ = std::min(run_count_ + 1, kWorthRunsMax - kFirstWorthRuns);
    worth_ += (spared_ - worth_) / (kFirstWorthRuns + run_count_);
  }
  run_ = Run::kNone;
  spared_ = 0;
}

}  // namespace outrider
