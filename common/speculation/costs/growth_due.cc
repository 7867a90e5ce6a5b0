#include "common/speculation/costs/growth_due.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace outrider {
namespace {

// An answer is late after so many of its deviations, and a batch.
constexpr double kLateDeviations = 2;
// The next batch, after so much of the time that one takes.
constexpr double kLateness = 1.5;
// So many batches after one that answers a dry root tell what a batch takes: at other times a
// device may have nothing that is worth drafting.
constexpr uint32_t kBurst = 2;

// What waits may take beyond what they have earned, as a share of the time between verdicts; and the
// most they can have, in such times: what was earned long ago tells nothing.
constexpr double kTrialShare = 1.0 / 32;
constexpr double kEarnedMax = 4;

double SecondsBetween(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double>(to - from).count();
}

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

double GrowthDue::TokenSeconds() const {
  return interval_.empty() || tokens_.empty() ? 0 : interval_.Value() / tokens_.Value();
}

// As the target's runs are of late, and never more than from one verdict to the next.
double GrowthDue::PassSeconds() const {
  return std::min(interval_.Value(), pass_seconds_.value_or(interval_.Value()));
}

double GrowthDue::BatchSeconds() const {
  return batch_.empty() ? 0 : batch_.Value();
}

void GrowthDue::RootKnown(uint32_t verdict, double promise, std::optional<double> pass_seconds,
                          MonotonicTime now) {
  Settle(begin_at_, 0);
  if (verdict == verdict_ + 1) interval_.Add(SecondsBetween(RootAt(verdict_), now));
  if (!interval_.empty()) {
    const double most = kEarnedMax * interval_.Value();
    earned_ = std::min(most, earned_.value_or(most) + kTrialShare * interval_.Value());
  }
  verdict_ = verdict;
  roots_[verdict % roots_.size()] = now;
  promise_ = promise;
  pass_seconds_ = pass_seconds;
  awaited_.reset();
  AwaitAnswer(now);
  if (!awaited_) AwaitNext(now);
}

void GrowthDue::Wait(double seconds, MonotonicTime now) {
  waits_since_ = now;
  begin_at_ = now + FromSeconds(seconds);
}

// What was waited until `end` has brought so much; it may go on.
void GrowthDue::Settle(MonotonicTime end, double gain) {
  end = std::min(end, begin_at_);
  if (!earned_ || end <= waits_since_) return;
  *earned_ += gain * TokenSeconds() - SecondsBetween(waits_since_, end);
  waits_since_ = end;
}

// The first one that is still to come: the others come later.
void GrowthDue::AwaitAnswer(MonotonicTime now) {
  if (!delay_.value() || tokens_.empty() || interval_.empty()) return;
  const double worth = PassSeconds() - (1 + promise_) * TokenSeconds();
  const double lateness = kLateDeviations * deviation_.value().value_or(0) + BatchSeconds();
  uint32_t first = verdict_ - std::min<uint32_t>(verdict_, roots_.size() - 1);
  if (answered_) first = std::max(first, *answered_ + 1);
  for (uint32_t verdict = first; verdict <= verdict_; ++verdict) {
    const double due = SecondsBetween(now, RootAt(verdict)) + *delay_.value() +
                       (verdict_ - verdict) * BatchSeconds();
    const double until = due + lateness;
    if (until <= 0) continue;
    if (until >= worth) return;
    if (until > earned_.value_or(until)) return;
    awaited_ = verdict;
    Wait(until, now);
    return;
  }
}

// A token that misses this pass costs its share of another.
void GrowthDue::AwaitNext(MonotonicTime now) {
  Wait(0, now);
  if (interval_.empty()) return;
  const double batch = kLateness * BatchSeconds();
  const double wait = batch - SecondsBetween(last_growth_, now);
  const bool is_worth_it = gain_ * PassSeconds() > batch * (1 + promise_);
  if (is_worth_it && wait > 0 && wait <= earned_.value_or(wait)) Wait(wait, now);
}

void GrowthDue::Grown(uint32_t seen, double promise, MonotonicTime now) {
  if (burst_ > 0) {
    --burst_;
    batch_.Add(SecondsBetween(last_growth_, now));
  }
  last_growth_ = now;
  gain_ = promise - promise_;
  Settle(now, gain_);
  if (promise > 0) Learn(seen, now);
  promise_ = promise;
  if (awaited_ && (promise == 0 || seen < *awaited_)) return;
  awaited_.reset();
  AwaitNext(now);
}

// From growth of use: what a dry root has waited for tells the delay.
void GrowthDue::Learn(uint32_t seen, MonotonicTime now) {
  if (answered_ && seen <= *answered_) return;
  answered_ = seen;
  if (promise_ > 0 || verdict_ - seen >= roots_.size() || now <= RootAt(seen)) return;
  const double delay = SecondsBetween(RootAt(seen), now) - (verdict_ - seen) * BatchSeconds();
  if (delay_.value()) deviation_.Add(std::abs(delay - *delay_.value()));
  delay_.Add(delay);
  burst_ = kBurst;
}

}  // namespace outrider
