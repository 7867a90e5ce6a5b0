#include "common/speculation/costs/hidden_rows.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

void HiddenRows::Add(uint32_t row_count, double pass_ms, double waited_ms) {
  OUTRIDER_CHECK(row_count > 0 && pass_ms > 0, "a pass has rows, and takes time");
  const double computed_ms = std::max(0.0, pass_ms - waited_ms);
  row_count_.Add(row_count);
  pass_ms_.Add(pass_ms);
  row_ms_.Add(computed_ms / row_count);
  wait_share_.Add(1 - computed_ms / pass_ms);
}

std::optional<double> HiddenRows::RowMs(uint32_t from, uint32_t to) const {
  OUTRIDER_CHECK(from < to, "of some rows");
  if (pass_ms_.empty()) return std::nullopt;
  const bool waits = wait_share_.Value() >= kWaitedMin;
  if (!waits && from < row_count_.Value()) return std::nullopt;
  const auto pass_of = [&](uint32_t rows) {
    return std::max(pass_ms_.Value(), row_ms_.Value() * rows / (1 - kAlwaysWaited));
  };
  return (pass_of(to) - pass_of(from)) / (to - from);
}

}  // namespace outrider
