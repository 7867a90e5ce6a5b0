#include "common/speculation/costs/row_price.h"

#include <algorithm>

namespace outrider {

void RowPrice::Add(uint32_t rows, double ms) {
  passes_[count_++ % kPassCount] = {rows, ms};
}

std::optional<double> RowPrice::ms() const {
  std::array<double, kPassCount*(kPassCount - 1) / 2> slopes;
  size_t slope_count = 0;
  const size_t kept = std::min(count_, kPassCount);
  for (size_t i = 0; i < kept; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (passes_[i].rows == passes_[j].rows) continue;
      const double rows = static_cast<double>(passes_[i].rows) - passes_[j].rows;
      slopes[slope_count++] = (passes_[i].ms - passes_[j].ms) / rows;
    }
  }
  // Where one pass differs from all others there are as many slopes as those, and all hang on it;
  // where two do, there are 2 (kept - 2).
  if (slope_count < kSlopesMin || slope_count + 4 < 2 * kept) return std::nullopt;
  const auto middle = slopes.begin() + static_cast<ptrdiff_t>(slope_count / 2);
  std::nth_element(slopes.begin(), middle, slopes.begin() + static_cast<ptrdiff_t>(slope_count));
  return std::max(0.0, *middle);
}

std::optional<double> RowPrice::FirstRowMs(double row_ms) const {
  const size_t kept = std::min(count_, kPassCount);
  if (kept == 0) return std::nullopt;
  std::array<double, kPassCount> first;
  for (size_t i = 0; i < kept; ++i) first[i] = passes_[i].ms - row_ms * (passes_[i].rows - 1.0);
  const auto middle = first.begin() + static_cast<ptrdiff_t>(kept / 2);
  std::nth_element(first.begin(), middle, first.begin() + static_cast<ptrdiff_t>(kept));
  return std::max(0.0, *middle);
}

}  // namespace outrider
