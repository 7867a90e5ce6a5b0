// What a device has done for an engine, by its own clock: a GPU's time is not the host's, which may
// be doing something else meanwhile, or wait.
#pragma once

#include <cstdint>

#include "common/base/monotonic_time.h"

namespace outrider {

struct DeviceWork {
  Duration time{};  // of runs: from the first layer on until the last answer is there
  // Of that: taken by exits and others who look between layers, or waiting for them.
  Duration exit_time{};
  // Not of that: what exits have taken beside it.
  Duration exit_side_time{};
  // Pieces of runs that were asked for as one graph; those that were asked for kernel by kernel;
  // and those of the latter that are a graph from now on.
  uint64_t graph_hits = 0;
  uint64_t graph_misses = 0;
  uint64_t graph_captures = 0;
};

}  // namespace outrider
