#include "common/speculation/costs/row_price.h"

#include <algorithm>

namespace outrider {

void RowPrice::Add(uint32_t rows, double ms) {
  passes_[count_++ % kPassCount] = {rows, ms};
}

std::optional<double> RowPrice::ms() const {
  std::array<double, kPassCount * kNear> slopes;
  size_t slope_count = 0;
  const size_t oldest = count_ - std::min(count_, kPassCount);
  for (size_t i = oldest; i < count_; ++i) {
    for (size_t j = std::max(oldest, i - std::min(i, kNear)); j < i; ++j) {
      const Pass& later = passes_[i % kPassCount];
      const Pass& before = passes_[j % kPassCount];
      if (later.rows == before.rows) continue;
      const double rows = static_cast<double>(later.rows) - before.rows;
      slopes[slope_count++] = (later.ms - before.ms) / rows;
    }
  }
  // Where one pass differs from all others there are as many slopes as those near it, and all hang
  // on it; where two do, there are twice as many.
  const size_t near_one = std::min(count_ - oldest, 2 * kNear);
  if (slope_count < kSlopesMin || slope_count + 4 < 2 * near_one) return std::nullopt;
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
