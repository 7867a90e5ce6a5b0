// What a run takes of each number of rows, as far as there were such runs of late.
//
// A line (run_time.h) knows no steps, and prices have some: kernels multiply rows in blocks, and the
// row that begins one costs as much as all that fill it. On a processor with AMX 13 to 16 rows take
// the same, and a 17th a fifth more: who has 16 sessions cannot have a node for what rows cost on the
// way there.
//
// Of a number is kept the median of its last runs. Between two that are known is a line; beyond the
// largest a row costs what it costs elsewhere, so that it is tried. And what was long ago is forgotten:
// nobody would try again what stuttered once.
//
// Threads: as a vector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/recent_median.h"
#include "common/verification/machine/run_time.h"

namespace outrider {

class RunSteps {
 public:
  static constexpr uint32_t kRowsMax = 64;

  void Learn(uint32_t rows, double seconds);

  // Of a run of so many rows, where nothing nearer is known by `line`. None: nothing is known.
  std::optional<double> SecondsOf(uint32_t rows, const RunTime::Line& line) const;

 private:
  static constexpr uint64_t kRemembered = 256;  // runs

  struct Step {
    RecentMedian<5> seconds;
    uint64_t run = 0;  // the last one, counted from 1
  };

  bool IsKnown(uint32_t rows) const {
    return steps_[rows].run > 0 && run_count_ - steps_[rows].run < kRemembered;
  }

  uint64_t run_count_ = 0;
  std::array<Step, kRowsMax + 1> steps_;
};

}  // namespace outrider
