// Hints of one session that wait to be written to its device.
//
// An outcome is there once, in the words of the exit that was last to guess it. The one of the
// highest rank goes first, of equal ones the oldest; when there are more than kMax, the one of the
// lowest rank is dropped. What says nothing that the hint written last did not is left out.
//
// Memory:  kMax hints.
// Threads: as a vector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class HintQueue {
 public:
  static constexpr size_t kMax = 8;

  // False: it says nothing new.
  bool Add(const v1::Hint& hint, double rank);
  bool empty() const { return count_ == 0; }
  // There is one. It is taken out.
  const v1::Hint& TakeFirst();
  // All that wait have been overtaken by their verdict: how many.
  size_t Clear();

 private:
  struct Waiting {
    v1::Hint hint;
    double rank = 0;
    uint64_t number = 0;  // in the order in which outcomes came
  };

  static bool GoesBefore(const Waiting& a, const Waiting& b);
  void Drop(size_t place);

  std::array<Waiting, kMax + 1> waiting_;  // the first count_
  size_t count_ = 0;
  uint64_t last_number_ = 0;
  v1::Hint taken_;  // the last one
};

}  // namespace outrider
