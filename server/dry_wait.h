// How long a session whose root has no child waits for growth before its target goes on alone.
//
// Growth takes D from the verdict that it answers: the round trip and some drafting. A pass takes T
// and, with growth, commits E tokens. Waiting gives E tokens after D + T; going on alone gives
// (D + T) / T in that time. So it waits while D <= (E - 1) T, and then for twice the time growth
// usually takes, since it may be late or not come at all. A device that has let several verdicts
// pass without growth is not waited for.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "server/moving_average.h"

namespace outrider {

class DryWait {
 public:
  // A new root is known, or a device has attached: growth below this root is timed from here.
  void RootKnown(MonotonicTime now);
  // `answers`: its sender had seen the newest verdict.
  void Grown(bool answers, MonotonicTime now);
  // A pass with drafted nodes has committed so many tokens.
  void Yielded(uint32_t tokens);

  // `pass_seconds` is what a pass takes; none: not known yet.
  MonotonicTime AloneAt(std::optional<double> pass_seconds) const;

 private:
  MonotonicTime root_known_{};
  bool awaiting_ = false;  // growth that answers
  uint32_t silent_roots_ = 0;
  MovingAverage delay_;  // D, in seconds
  MovingAverage yield_;  // E
};

}  // namespace outrider
