// What a row more makes a pass longer, from what passes of different sizes have taken of late.
//
// It is the median of the slopes between any two of the last passes that differ in rows and were near
// each other in time (Theil and Sen's line): of those passes a quarter may have stuttered, and nothing
// has moved; and a target that gets slower all at once leaves most slopes as they were, since few
// of them reach over the change. A mean time per row would be no price: reading the weights is paid
// for by the first row, and what is asked is what the next one costs.
//
// A line is what is needed where a session stands: sizes of late are near one another, and a price
// that bends further off (tiles of 16 rows, a cache that overflows) is learned when they get there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrider {

class RowPrice {
 public:
  void Add(uint32_t rows, double ms);

  // Not below 0. None: too few passes have differed.
  std::optional<double> ms() const;
  // What a pass of one row takes, if every other costs `row_ms`. None: there was no pass.
  std::optional<double> FirstRowMs(double row_ms) const;

 private:
  static constexpr size_t kPassCount = 32;
  static constexpr size_t kNear = 8;  // passes from one to the other
  static constexpr size_t kSlopesMin = 12;

  struct Pass {
    uint32_t rows;
    double ms;
  };

  std::array<Pass, kPassCount> passes_;  // the newest, in a ring
  size_t count_ = 0;                     // of all there were
};

}  // namespace outrider
