// How long work of a shape takes: measured where it was measured, conservative in between.
//
// LEVER (section 4.2, "Cost") keeps such a profile of verification, by the nodes of a tree and its
// leaves, and estimates unseen shapes "from nearby observed shapes with a conservative penalty".
// Here that is:
//
//   seen itself              its moving median
//   below some seen shape    the least time of those that are at least as large in both: an upper
//                            bound, because more work never takes less
//   above all                the time of the largest below, plus what the assumed line adds from
//                            there to here, and kPenalty of that sum for every doubling
//   nothing seen             the assumed line
//
// and never less than any seen shape that is no larger in both, so that noise cannot make a larger
// tree look cheaper.
//
// Memory:  a fixed grid: nodes in 12 steps (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48 and up), leaves
//          in the same; a shape belongs to the step at or above it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/speculation/recent_median.h"

namespace outrider {

struct PassShape {
  uint32_t nodes;  // besides the root
  uint32_t leaves;
};

class LatencyProfile {
 public:
  static constexpr double kPenalty = 0.1;

  // base + per_node * nodes, until measured.
  LatencyProfile(double base_ms, double node_ms);

  void Add(const PassShape& shape, double ms);
  double Estimate(const PassShape& shape) const;

 private:
  double base_ms_;
  double node_ms_;
};

}  // namespace outrider
