#include "common/speculation/costs/row_price.h"

#include <algorithm>
#include <span>

namespace outrider {
namespace {

double MedianOf(std::span<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void RowPrice::Add(uint32_t rows, double ms) {
  const size_t step = StepOf(rows);
  passes_[count_++ % kPassCount] = {rows, step, ms};
  if (step > 0) Remember(step);
  if (step + 1 < steps_.size()) Remember(step + 1);
}

size_t RowPrice::StepOf(uint32_t rows) {
  return static_cast<size_t>(std::ranges::lower_bound(kSteps, rows) - kSteps.begin());
}

// The slopes between two passes near each other of which `counts`, the one with fewer rows first.
template <typename Counts>
size_t RowPrice::Collect(const Counts& counts, Slopes& slopes) const {
  size_t slope_count = 0;
  for (size_t i = oldest(); i < count_; ++i) {
    for (size_t j = std::max(oldest(), i - std::min(i, kNear)); j < i; ++j) {
      const Pass& later = passes_[i % kPassCount];
      const Pass& before = passes_[j % kPassCount];
      if (later.rows == before.rows) continue;
      if (later.rows > before.rows ? !counts(before, later) : !counts(later, before)) continue;
      const double rows = static_cast<double>(later.rows) - before.rows;
      slopes[slope_count++] = (later.ms - before.ms) / rows;
    }
  }
  return slope_count;
}

std::optional<double> RowPrice::ms() const {
  Slopes slopes;
  const size_t slope_count =
      Collect([](const Pass& /*fewer*/, const Pass& /*more*/) { return true; }, slopes);
  // Where one pass differs from all others there are as many slopes as those near it, and all hang
  // on it; where two do, there are twice as many.
  const size_t near_one = std::min(count_ - oldest(), 2 * kNear);
  if (slope_count < kSlopesMin || slope_count + 4 < 2 * near_one) return std::nullopt;
  return std::max(0.0, MedianOf(std::span(slopes).first(slope_count)));
}

// Nor may all of a step's slopes hang on one pass.
void RowPrice::Remember(size_t step) {
  size_t below = 0;
  size_t above = 0;
  for (size_t i = oldest(); i < count_; ++i) {
    if (passes_[i % kPassCount].step + 1 == step) ++below;
    if (passes_[i % kPassCount].step == step) ++above;
  }
  if (std::min(below, above) < 2) return;
  Slopes slopes;
  const size_t slope_count =
      Collect([&](const Pass& fewer,
                  const Pass& more) { return fewer.step + 1 == step && more.step == step; },
              slopes);
  if (slope_count < kSlopesMin) return;
  steps_[step] = {std::max(0.0, MedianOf(std::span(slopes).first(slope_count))), count_};
}

std::optional<double> RowPrice::MsOfStep(uint32_t rows) const {
  const Remembered& remembered = steps_[StepOf(rows)];
  if (remembered.count == 0 || count_ - remembered.count > kRemembered) return std::nullopt;
  return remembered.ms;
}

std::optional<double> RowPrice::FirstRowMs(double row_ms) const {
  const size_t kept = std::min(count_, kPassCount);
  if (kept == 0) return std::nullopt;
  std::array<double, kPassCount> first;
  for (size_t i = 0; i < kept; ++i) first[i] = passes_[i].ms - row_ms * (passes_[i].rows - 1.0);
  return std::max(0.0, MedianOf(std::span(first).first(kept)));
}

}  // namespace outrider
