// Which rows of a walk the head is asked about; what is chosen is the same. Engines on the host's
// processor have the choice (projection_choice.h), others ask for all.
#pragma once

#include <cstdint>

namespace outrider {

enum class Projection : uint8_t {
  kAuto,  // whichever is sooner, as measured
  kAll,   // all of them, at once
  kPath,  // those on the way down, and likely ones below them
};

}  // namespace outrider
