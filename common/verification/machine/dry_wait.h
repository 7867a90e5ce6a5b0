// How long a session whose root has no child waits for growth before its target goes on alone.
//
// Growth takes D from the verdict that it answers: the round trip and some drafting. When it comes,
// a run of passes begins that ends at the next dry root, and passes of it commit W tokens more than
// there are passes, all together. To wait is to spend D and to spare the target W passes; to go on
// alone is to have a token for each T, and more when growth from before comes in useful. A pass that
// is spared is worth its time T to whoever reads along, and what it costs to all others that the
// target serves: all of its time if nobody else is in the run, and little where many share one that
// takes place anyway. So it waits while
//
//   D <= W * (T + kWorthToOthers * cost)
//
// and then for twice the time growth usually takes, since it may be late or not come at all.
//
// W is known from runs that began with a wait: what comes up to a target that is ahead is of the
// past, and does less. So a session that goes on alone waits for once now and then, as seldom as to
// cost it little. A device that has let several verdicts pass without growth is not waited for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/speculation/costs/moving_average.h"

namespace outrider {

class DryWait {
 public:
  static constexpr double kWorthToOthers = 1.25;

  // What passes take.
  struct PassTime {
    double seconds;  // T
    double cost;     // of that, a pass's share
  };

  // After verdict number `verdict`, or when a device has attached. `is_dry`: it has no child.
  // `pass`: none: not known yet.
  void RootKnown(uint32_t verdict, bool is_dry, std::optional<PassTime> pass, MonotonicTime now);
  // Growth has come whose sender had seen verdict `seen`.
  void Grown(uint32_t seen, MonotonicTime now);
  // A pass that began with growth or without has committed so many tokens.
  void Yielded(bool grown, uint32_t tokens);

  // Of the newest root, if it is dry.
  MonotonicTime AloneAt() const { return alone_at_; }
  // When growth is due for it; none: nobody knows, or the device has been silent of late.
  std::optional<MonotonicTime> GrowthAt() const;
  // D, in seconds; none: not known yet.
  std::optional<double> delay() const { return delay_.value(); }

 private:
  enum class Run { kNone, kAfterWait, kOfThePast };

  MonotonicTime RootAt(uint32_t verdict) const { return roots_[verdict % roots_.size()]; }
  void EndRun();
  Duration WaitFor(std::optional<PassTime> pass, MonotonicTime now);

  // By verdict: when the last roots became known.
  std::array<MonotonicTime, 128> roots_{};
  uint32_t verdict_ = 0;
  MonotonicTime alone_at_{};
  std::optional<uint32_t> answered_;  // the newest verdict that growth has answered
  uint32_t silent_roots_ = 0;
  MonotonicTime last_wait_{};

  Run run_ = Run::kNone;
  double spared_ = 0;  // by the run, so far
  uint32_t run_count_ = 0;
  double worth_ = 4;     // W, to begin with
  MovingAverage delay_;  // D, in seconds
};

}  // namespace outrider
