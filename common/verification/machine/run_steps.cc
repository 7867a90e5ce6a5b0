#include "common/verification/machine/run_steps.h"

#include <algorithm>

namespace outrider {

void RunSteps::Learn(uint32_t rows, double seconds) {
  ++run_count_;
  if (rows > kRowsMax) return;
  if (!IsKnown(rows)) steps_[rows] = {};
  steps_[rows].seconds.Add(seconds);
  steps_[rows].run = run_count_;
}

std::optional<double> RunSteps::SecondsOf(uint32_t rows, const RunTime::Line& line) const {
  int below = static_cast<int>(std::min(rows, kRowsMax));
  while (below >= 0 && !IsKnown(static_cast<uint32_t>(below))) --below;
  uint32_t above = rows;
  while (above <= kRowsMax && !IsKnown(above)) ++above;
  const bool has_above = above <= kRowsMax;
  if (below < 0 && !has_above) return std::nullopt;
  if (below < 0) return steps_[above].seconds.Value() - (above - rows) * line.row_seconds;

  const uint32_t fewer = static_cast<uint32_t>(below);
  const double seconds = steps_[fewer].seconds.Value();
  if (!has_above) return seconds + (rows - fewer) * line.row_seconds;
  if (above == fewer) return seconds;
  const double part = static_cast<double>(rows - fewer) / (above - fewer);
  return seconds + part * (steps_[above].seconds.Value() - seconds);
}

}  // namespace outrider
