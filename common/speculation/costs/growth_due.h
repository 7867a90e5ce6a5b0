// Whether a pass that could begin is to wait a moment for growth that is on its way.
//
// A target that goes on alone does not stand still for growth. But when growth comes just after a
// pass has begun, it lies there for all of that pass, and where times are constant the next one
// meets the same. A pass that is begun too soon delays it by a pass, T, and brings a token and
// those that are promised now, each of which is worth the time of a token, t. So a pass waits while
//
//   wait < T - (1 + what this one promises) * t
//
// A device whose growth is seldom of use has a t that is near T, and is hardly waited for. T is of
// passes alone: the time from one verdict to the next has the waits in it, and by that they would
// justify themselves. (Round trip 60, T 100, batches of 10, right in 0.5: once they had begun, each
// pass waited for 93 ms and brought 3.1 tokens, 62 ms a token; begun at once, 1.8, 56 ms.)
//
//   due     growth answers a verdict D after it, and reaches the root a batch later for every
//           verdict since: the draft goes down batch by batch. The first verdict that is not yet
//           answered counts, until it is late
//   coming  while batch comes after batch, what the last one has added stands for what the next one
//           will, which is worth its time or is not
//
// All this is believed as far as it has come true: a wait takes no more than waits have earned so far,
// tokens that growth has brought to them less their own time, and a small share of all time, so that
// a device whose growth has been of no use is tried again.
//
// Who says what: a server of each session that goes on alone, a verifier in the same process too. A
// device that knows itself waited for decides by itself when a pass begins (tree_policy.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"
#include "common/speculation/costs/moving_average.h"

namespace outrider {

class GrowthDue {
 public:
  // After verdict number `verdict`, or when a device has attached. `promise`: the drafted tokens
  // that a pass would be expected to commit; 0: the root is dry. `pass_seconds`: what passes take;
  // none: not known yet.
  void RootKnown(uint32_t verdict, double promise, std::optional<double> pass_seconds,
                 MonotonicTime now);
  // Growth has come whose sender had seen verdict `seen`, and a pass promises so much with it.
  void Grown(uint32_t seen, double promise, MonotonicTime now);
  // A pass has committed so many tokens.
  void Yielded(uint32_t tokens) { tokens_.Add(tokens); }

  // When a pass over the newest root is to begin.
  MonotonicTime BeginAt() const { return begin_at_; }

 private:
  MonotonicTime RootAt(uint32_t verdict) const { return roots_[verdict % roots_.size()]; }
  double TokenSeconds() const;
  double PassSeconds() const;
  void Settle(MonotonicTime end, double gain);
  void Wait(double seconds, MonotonicTime now);
  double BatchSeconds() const;
  void Learn(uint32_t seen, MonotonicTime now);
  void AwaitAnswer(MonotonicTime now);
  void AwaitNext(MonotonicTime now);

  // By verdict: when the last roots became known.
  std::array<MonotonicTime, 128> roots_{};
  uint32_t verdict_ = 0;
  double promise_ = 0;  // at the newest root
  std::optional<double> pass_seconds_;
  std::optional<uint32_t> answered_;  // the newest verdict that growth of use has answered
  std::optional<uint32_t> awaited_;   // whose answer the pass waits for
  MonotonicTime begin_at_{};
  MonotonicTime waits_since_{};   // until begin_at_, when that is later
  std::optional<double> earned_;  // by waits; seconds

  MonotonicTime last_growth_{};
  double gain_ = 0;     // what it has added to the promise
  uint32_t burst_ = 0;  // growths to come that tell what a batch takes

  // What all goes by; times in seconds.
  MovingAverage delay_;      // D
  MovingAverage deviation_;  // from it
  RecentMedian<9> batch_;    // from one growth to the next
  RecentMean tokens_;        // of a pass
  RecentMean interval_;      // between verdicts
};

}  // namespace outrider
