// Which of a walk's rows the head is asked about: all of them at once, or those on the way down
// alone.
//
// All at once reads the head once, for as many rows as the tree has; on the way down it is read as
// often as the way leaves what was likely, for a few rows each time. Which is the sooner goes by
// the number of rows, the head's size and the machine; so it is measured, for each size of a run by
// itself, in octaves.
//
//   ProjectionChoice choice(options.projection);
//   const bool by_path = choice.NextIsByPath(row_count);    // of the walks of a run
//   ... they are answered ...
//   choice.Took(time);
//
// A function of what it was told.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/monotonic_time.h"
#include "common/base/sooner_of_two.h"
#include "common/engine/projection.h"

namespace outrider {

class ProjectionChoice {
 public:
  explicit ProjectionChoice(Projection asked) : asked_(asked) {}

  bool NextIsByPath(uint32_t row_count) {
    octave_ = std::min<size_t>(std::bit_width(row_count), choices_.size() - 1);
    way_ = asked_ == Projection::kAuto ? choices_[octave_].Next()
                                       : static_cast<size_t>(asked_ == Projection::kPath);
    return way_ == 1;
  }
  void Took(Duration time) { choices_[octave_].Took(way_, Seconds(time)); }

 private:
  const Projection asked_;
  std::array<SoonerOfTwo, 10> choices_;  // the last one of all that are larger
  size_t octave_ = 0;                    // of the present run
  size_t way_ = 0;
};

}  // namespace outrider
