#include "adapters/training/schedule.h"

#include <cmath>
#include <numbers>

namespace outrider {

double Schedule::RateAt(uint64_t step) const {
  if (step < warm_up_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up_steps + 1);
  }
  const auto done = static_cast<double>(step - warm_up_steps);
  const double share = done / static_cast<double>(steps - warm_up_steps);
  return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

}  // namespace outrider
