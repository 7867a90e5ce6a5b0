// What a run of the target takes, as learned from runs: a + b * rows.
//
// a is the price of reading the weights, which all rows of a run share; b is that of a row. A mean
// time per row would be neither: where 16 rows cost hardly more than one, it makes a row look as
// dear as the whole read.
//
// The line is that of least squares through the runs there were, each weighing a tenth less
// than the next one, so that it follows a target that becomes slower. Where all runs have had the same
// number of rows there is no line, and nothing is known but that; where they have had the same only of
// late, a row still takes the part of a run that it took.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"

namespace outrider {

class RunTime {
 public:
  struct Line {
    double run_seconds;  // a
    double row_seconds;  // b, above 0
  };

  void Learn(uint32_t rows, Duration time);

  // None: not known yet.
  std::optional<Line> line() const;
  // Rows that have been tried of late, or about that; 0: none.
  double rows_tried() const;

 private:
  static constexpr double kNewest = 0.1;

  bool has_learned_ = false;
  double mean_rows_ = 0;
  double mean_seconds_ = 0;
  double variance_ = 0;              // of rows
  double covariance_ = 0;            // of rows and seconds
  std::optional<double> row_share_;  // b, as a part of the mean run
};

}  // namespace outrider
