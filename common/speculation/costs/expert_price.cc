#include "common/speculation/costs/expert_price.h"

#include <algorithm>
#include <cmath>

namespace outrider {

double ExpertPrice::Together(const Experts& experts, double row_count, double agreement) {
  const double all = experts.count;
  const double of_one = experts.used_count;
  if (all == 0) return 0;
  const double by_chance = all * (1 - std::pow(1 - of_one / all, row_count));
  return std::min(of_one * std::pow(row_count, agreement), by_chance);
}

// Rows cannot use fewer experts together than one of them does, nor more than all of them apart; but where
// exits have taken rows out of a pass half-way, fewer were used than its size would say.
void ExpertPrice::Add(uint32_t row_count, uint32_t used_count, double waited_ms) {
  if (experts_.used_count == 0 || used_count == 0) return;
  wait_ms_.Add(waited_ms / used_count);
  if (row_count < 2) return;
  const double times = static_cast<double>(used_count) / experts_.used_count;
  agreement_.Add(std::clamp(std::log(times) / std::log(row_count), 0.0, 1.0));
}

std::optional<double> ExpertPrice::WaitMs(uint32_t row_count) const {
  if (wait_ms_.empty()) return std::nullopt;
  const double agreement = agreement_.empty() ? kAgreement : agreement_.Value();
  return Together(experts_, row_count, agreement) * wait_ms_.Value();
}

std::optional<double> ExpertPrice::RowMs(uint32_t row_count) const {
  const uint32_t rows = std::max(row_count, 2U);
  const std::optional<double> with = WaitMs(rows);
  if (!with) return std::nullopt;
  return *with - *WaitMs(rows - 1);
}

}  // namespace outrider
