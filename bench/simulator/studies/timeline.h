// A picture of one session in time: what the draft does above, what the target does below, and the
// messages between them.
//
//      device  |##draft##|##|##|##|##|                          numbers: nodes of a batch,
//                  \  \       / \                                        rows of a run
//                   \  \     /   \       up: growth, down: verdicts (solid) and hints (dashed)
//      server      |####run####|####run####|
#pragma once

#include <cstddef>
#include <string>

#include "bench/simulator/world/journal.h"

namespace outrider {

struct TimelineOptions {
  size_t device = 0;
  MonotonicTime zero;
  Duration from;  // after zero
  Duration length;
  std::string title;
  std::string subtitle;
};

std::string ToSvg(const Journal& journal, const TimelineOptions& options);

}  // namespace outrider
