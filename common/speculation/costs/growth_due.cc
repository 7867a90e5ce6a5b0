#include "common/speculation/costs/growth_due.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace outrider {
namespace {

// An answer is late after so many of its deviations, and a batch.
constexpr double kDeviations = 2;
// The next batch, after so much of the time that one takes.
constexpr double kLateness = 1.5;
// So many batches after one that answers a dry root tell what a batch takes: at other times a
// device may have nothing that is worth drafting.
constexpr uint32_t kBurst = 2;

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

double GrowthDue::BatchSeconds() const {
  return batch_.empty() ? 0 : batch_.Value();
}

void GrowthDue::RootKnown(uint32_t verdict, double promise, MonotonicTime now) {
  if (verdict == verdict_ + 1) interval_.Add(SecondsBetween(RootAt(verdict_), now));
  verdict_ = verdict;
  roots_[verdict % roots_.size()] = now;
  promise_ = promise;
  awaited_.reset();
  AwaitAnswer(now);
  if (!awaited_) AwaitNext(now);
}

// The first one that is still to come: the others come later.
void GrowthDue::AwaitAnswer(MonotonicTime now) {
  if (!delay_.value() || tokens_.empty()) return;
  const double worth = (tokens_.Value() - 1 - promise_) * TokenSeconds();
  const double lateness = kDeviations * deviation_.value().value_or(0) + BatchSeconds();
  uint32_t first = verdict_ - std::min<uint32_t>(verdict_, roots_.size() - 1);
  if (answered_) first = std::max(first, *answered_ + 1);
  for (uint32_t verdict = first; verdict <= verdict_; ++verdict) {
    const double due = SecondsBetween(now, RootAt(verdict)) + *delay_.value() +
                       (verdict_ - verdict) * BatchSeconds();
    const double until = due + lateness;
    if (until <= 0) continue;
    if (until >= worth) return;
    awaited_ = verdict;
    begin_at_ = now + FromSeconds(until);
    return;
  }
}

// A token that misses this pass costs its share of another.
void GrowthDue::AwaitNext(MonotonicTime now) {
  begin_at_ = now;
  if (interval_.empty()) return;
  const double wait = kLateness * BatchSeconds();
  if (gain_ * interval_.Value() > wait * (1 + promise_)) {
    begin_at_ = std::max(now, last_growth_ + FromSeconds(wait));
  }
}

void GrowthDue::Grown(uint32_t seen, double promise, MonotonicTime now) {
  if (burst_ > 0) {
    --burst_;
    batch_.Add(SecondsBetween(last_growth_, now));
  }
  last_growth_ = now;
  gain_ = promise - promise_;
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
