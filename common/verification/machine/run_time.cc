#include "common/verification/machine/run_time.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace outrider {
namespace {

// Of rows, below which their number has not been varied enough to tell a slope from noise.
constexpr double kLeastVariance = 1;
// The least a row is taken to cost, as a part of a run: measured times are never that exact.
constexpr double kLeastRow = 1e-4;

}  // namespace

void RunTime::Learn(uint32_t rows, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (!has_learned_) {
    has_learned_ = true;
    mean_rows_ = rows;
    mean_seconds_ = seconds;
    return;
  }
  const double more_rows = rows - mean_rows_;
  const double more_seconds = seconds - mean_seconds_;
  mean_rows_ += kNewest * more_rows;
  mean_seconds_ += kNewest * more_seconds;
  variance_ = (1 - kNewest) * (variance_ + kNewest * more_rows * more_rows);
  covariance_ = (1 - kNewest) * (covariance_ + kNewest * more_rows * more_seconds);
  if (variance_ < kLeastVariance || mean_seconds_ <= 0) return;
  row_share_ = std::max(kLeastRow, covariance_ / variance_ / mean_seconds_);
}

// Neither part is below nothing, whatever noise says.
std::optional<RunTime::Line> RunTime::line() const {
  if (!row_share_ || mean_seconds_ <= 0) return std::nullopt;
  const double slope = mean_seconds_ * std::min(*row_share_, 1 / mean_rows_);
  return Line{mean_seconds_ - slope * mean_rows_, slope};
}

double RunTime::rows_tried() const {
  return mean_rows_ + 2 * std::sqrt(variance_);
}

}  // namespace outrider
