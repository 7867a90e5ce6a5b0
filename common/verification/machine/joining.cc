#include "common/verification/machine/joining.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

// A device that was away for longer, and for longer than so many waits, says no more of how fast it is.
constexpr double kSecondsMax = 1;
constexpr double kWaitsMax = 8;

}  // namespace

void Joining::RootKnown(bool is_dry, std::optional<double> lost, MonotonicTime now) {
  if (!is_dry) return;
  lost_ = lost.value_or(0);
  const bool was_waited_for = dry_at_ && tokens_since_ > 0;
  if (was_waited_for) Learn(std::chrono::duration<double>(now - *dry_at_).count());
  if (was_waited_for || tries_ || waited_at_ == MonotonicTime{}) waited_at_ = now;
  const double since = std::chrono::duration<double>(now - waited_at_).count();
  tries_ = lost && since > kTryEvery * *lost;
  dry_at_ = now;
  tokens_since_ = rows_since_ = 0;
  let_pass_ = false;
}

void Joining::GoesAlone(MonotonicTime now) {
  if (!dry_at_ || !let_pass_) return;
  tokens_since_ = rows_since_ = 0;
  Learn(std::chrono::duration<double>(now - *dry_at_).count());
  let_pass_ = false;
}

// What began without growth was no wait.
void Joining::Passed(bool grown, uint32_t rows, uint32_t tokens) {
  if (!grown) {
    dry_at_.reset();
    return;
  }
  tokens_since_ += tokens;
  rows_since_ += rows;
}

void Joining::Learn(double seconds) {
  seconds = std::min(seconds, std::max(kSecondsMax, kWaitsMax * lost_));
  count_ = std::min(count_ + 1, kCountMax);
  tokens_ += (tokens_since_ - tokens_) / count_;
  rows_ += (rows_since_ - rows_) / count_;
  seconds_ = seconds_.value_or(seconds) + (seconds - seconds_.value_or(seconds)) / count_;
}

bool Joining::Joins(const Run& run, double delay, double due) const {
  if (tries_) return false;
  const double rate = (tokens_ - run.row_price * rows_) / seconds_.value_or(delay + run.seconds);
  const double set_back = delay - std::max(0.0, due - run.seconds);
  return 1 - run.row_price > rate * set_back;
}

}  // namespace outrider
