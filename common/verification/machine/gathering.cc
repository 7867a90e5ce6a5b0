#include "common/verification/machine/gathering.h"

#include <algorithm>

namespace outrider {

// With k of them waited for instead of k - 1, all who are ready by then wait so much longer; and the
// k-th does not wait for the rest of a run.
Duration GatherFor(uint32_t ready_count, Duration run,
                   absl::FunctionRef<std::optional<Duration>()> next_due) {
  if (ready_count == 0) return Duration{0};
  const Duration most = std::chrono::duration_cast<Duration>(kGatheringShare * run);
  Duration wait{0};
  Duration best{0};
  Duration cost{0};  // as compared with beginning at once
  Duration least{0};
  for (int64_t ready = ready_count;; ++ready) {
    const std::optional<Duration> due = next_due();
    if (!due || *due > most) return best;
    const Duration longer = std::max(*due, wait) - wait;
    wait += longer;
    cost += ready * longer - (run - *due);
    if (cost >= least) continue;
    least = cost;
    best = wait;
  }
}

}  // namespace outrider
