// When the target's next run is to begin: at once, or a moment later with more in it.
//
// Whose growth, or whose chain of the draft here, comes just after a run has begun waits for all of
// that run, and then the others wait for his. Two groups that take turns are what comes of that, each
// of which has the weights read for half of the sessions. To wait until one more is ready costs
// everybody who is ready that wait, and spares him what is left of a run. So it is waited for as many
// of those whose growth is due soon as makes the time that all of them wait together the least:
//
//   ready * wait + sum over those waited for (wait - due) + sum over the others (wait + run - due)
//
// and never for longer than a share of a run, since whoever is late, or says nothing on purpose, is
// waited for in vain.
//
// Threads: any; it keeps nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "common/base/monotonic_time.h"

namespace outrider {

// The longest wait, as a share of a run.
inline constexpr double kGatheringShare = 0.4;

// For how long `ready_count` sessions are to wait. `next_due` says after how long the next session
// that is due gets ready, the soonest first; none: nobody else is due.
Duration GatherFor(uint32_t ready_count, Duration run,
                   absl::FunctionRef<std::optional<Duration>()> next_due);

}  // namespace outrider
