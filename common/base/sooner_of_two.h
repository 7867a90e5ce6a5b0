// Which of two ways to the same end is the sooner, by what each has taken of late.
//
//   SoonerOfTwo choice;
//   const size_t way = choice.Next();      // 0 or 1
//   ... it is gone ...
//   choice.Took(way, seconds);
//
// Both are tried by turns at first. Then the one whose median is less is taken, and the other now
// and then, since what is sooner changes with the machine's other work: kRetryEvery of them cost
// little, and a lasting change is believed after half a median's worth.
//
// A function of what it was told: no clock, no randomness, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/recent_median.h"

namespace outrider {

class SoonerOfTwo {
 public:
  static constexpr uint32_t kTrials = 5;  // of each, at first
  static constexpr uint32_t kRetryEvery = 32;

  size_t Next() {
    const uint32_t turn = turns_++;
    if (turn < 2 * kTrials) return turn % 2;
    const size_t sooner = Sooner();
    return turn % kRetryEvery == 0 ? 1 - sooner : sooner;
  }

  void Took(size_t way, double seconds) { times_[way].Add(seconds); }

  // The first, for as long as nothing is known of one.
  size_t Sooner() const {
    if (times_[0].empty() || times_[1].empty()) return 0;
    return times_[1].Value() < times_[0].Value() ? 1 : 0;
  }

 private:
  uint32_t turns_ = 0;
  std::array<RecentMedian<kTrials>, 2> times_;
};

}  // namespace outrider
