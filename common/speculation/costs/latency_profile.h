// How long work of a shape takes: measured where it was measured, conservative elsewhere.
//
// LEVER (section 4.2, "Cost") keeps such a profile of verification, by the nodes of a tree and its
// leaves, starts it with offline measurements, and estimates unseen shapes "from nearby observed
// shapes with a conservative penalty". Here the start is an assumed line, base + slope * nodes, and
// what is measured is by how much it is wrong: the ratio of a time to the line's.
//
//   seen      line * its ratio
//   unseen    line * the ratio of the seen shapes around it * (1 + kPenalty * distance)
//
// "Around it" are the nearest seen shape that is no larger in both numbers and the nearest that is
// no smaller, weighted by their nearness; when there is only one of them, or none and so some
// other, that. Distance is counted to the nearest, in steps of the grid.
//
// Memory:  a fixed grid. Nodes and leaves each belong to the step at or above them: every number up
//          to four, from there on two steps an octave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/recent_median.h"

namespace outrider {

struct PassShape {
  uint32_t nodes;  // besides the root
  uint32_t leaves;

  bool operator==(const PassShape&) const = default;
};

// What work of a shape took.
struct ShapeTime {
  PassShape shape;
  double ms;

  bool operator==(const ShapeTime&) const = default;
};

class LatencyProfile {
 public:
  static constexpr double kPenalty = 0.05;

  LatencyProfile(double base_ms, double slope_ms);

  void Add(const PassShape& shape, double ms);
  double Estimate(const PassShape& shape) const;
  // Of every step that was seen, the largest shape of it: another profile that they are added to estimates
  // as this one does, whatever line it assumes.
  std::vector<ShapeTime> Seen() const;

 private:
  static constexpr uint32_t kStepCount = 15;  // 0, 1, 2, 3, 4, 6, 8, 12, ... 128 and up

  struct Cell {
    uint32_t nodes;  // steps
    uint32_t leaves;
  };

  using Ratio = RecentMedian<5>;

  static uint32_t StepOf(uint32_t count);
  static uint32_t LargestOf(uint32_t step);
  static uint32_t Distance(const Cell& a, const Cell& b);

  double Line(uint32_t nodes) const { return base_ms_ + slope_ms_ * nodes; }
  const Ratio& At(const Cell& cell) const { return ratios_[cell.nodes * kStepCount + cell.leaves]; }

  double base_ms_;
  double slope_ms_;
  std::array<Ratio, size_t{kStepCount} * kStepCount> ratios_;
};

}  // namespace outrider
