// What a row more makes a pass longer, from what passes of different sizes have taken of late.
//
// It is the median of the slopes between any two of the last passes that differ in rows and were near
// each other in time (Theil and Sen's line): of those passes a quarter may have stuttered, and nothing
// has moved; and a target that gets slower all at once leaves most slopes as they were, since few
// of them reach over the change. A mean time per row would be no price: reading the weights is paid
// for by the first row, and what is asked is what the next one costs.
//
// A line is what is needed where a session stands: sizes of late are near one another. But prices bend (tiles of 16
// rows, a cache that overflows), so there are prices of steps besides, half an octave of rows each: the slopes between
// passes on either side of one. They are remembered for a while: who has gone a step too far and come back need not try
// it again at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrider {

class RowPrice {
 public:
  // The last rows of the step below that of so many, which are two at the least.
  static uint32_t StepBelow(uint32_t rows) { return kSteps[StepOf(rows) - 1]; }

  void Add(uint32_t rows, double ms);

  // Not below 0. None: too few passes have differed.
  std::optional<double> ms() const;
  // The same of a row between the step that ends below `rows` and the one that has them. None: passes of late were
  // not on both of them.
  std::optional<double> MsOfStep(uint32_t rows) const;
  // What a pass of one row takes, if every other costs `row_ms`. None: there was no pass.
  std::optional<double> FirstRowMs(double row_ms) const;

 private:
  static constexpr size_t kPassCount = 32;
  static constexpr size_t kNear = 8;  // passes from one to the other
  static constexpr size_t kSlopesMin = 12;
  static constexpr size_t kRemembered = 256;  // passes
  // The last rows of each step; what is more is of another one.
  static constexpr std::array<uint32_t, 12> kSteps = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

  struct Pass {
    uint32_t rows;
    size_t step;
    double ms;
  };
  struct Remembered {
    double ms = 0;
    size_t count = 0;  // of all passes that there were then; 0: nothing
  };
  using Slopes = std::array<double, kPassCount * kNear>;

  static size_t StepOf(uint32_t rows);
  size_t oldest() const { return count_ - std::min(count_, kPassCount); }
  template <typename Counts>
  size_t Collect(const Counts& counts, Slopes& slopes) const;
  void Remember(size_t step);

  std::array<Pass, kPassCount> passes_;              // the newest, in a ring
  size_t count_ = 0;                                 // of all there were
  std::array<Remembered, kSteps.size() + 1> steps_;  // between each and the one before
};

}  // namespace outrider
