// Whether exits take nodes out of passes, as a user asks for it: for good, never, or where it pays
// (pruning_worth.h).
#pragma once

#include <cstdint>

namespace outrider {

enum class PruningWay : uint8_t { kAuto, kOn, kOff };

}  // namespace outrider
