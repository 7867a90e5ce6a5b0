// How many rows of a pass flash hides: while their weights are read, computing costs nothing, and a pass takes as
// long as before until computing takes longer than reading. From there on each row costs what computing it takes.
//
//   pass(n) = max(r, c n / (1 - w))      r: what passes take that wait; c: what they compute a row
//                                       w: what is waited however much is computed: layers end when they end
//
// A pass tells both, for it says how long it has waited for flash: so it is known before any has been too large
// (row_price.h tells only afterwards, at the price of some that are).
//
// Passes that hardly wait more than w tell what rows cost that they have not, and not what theirs do: computing is what
// takes the time then, and how much sooner it would have to be to be hidden nobody has seen. What c n leaves out, that
// the first row costs more than others, makes rows a little too dear where passes are small.
//
// A function of what it was told; no allocation.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/recent_median.h"

namespace outrider {

class HiddenRows {
 public:
  // w (measured: 0.11 to 0.15 of passes of 32 rows that computed for longer than they read, on two cores, one of them
  // packing), and what those wait at the least that tell of fewer rows, too. Of a pass.
  static constexpr double kAlwaysWaited = 0.15;
  static constexpr double kWaitedMin = 0.2;

  void Add(uint32_t row_count, double pass_ms, double waited_ms);

  // What each of those rows makes a pass longer that a pass of `to` has more than one of `from`. None: passes of
  // late do not tell.
  std::optional<double> RowMs(uint32_t from, uint32_t to) const;

 private:
  RecentMedian<9> row_count_;
  RecentMedian<9> pass_ms_;
  RecentMedian<9> row_ms_;  // that it computed
  RecentMedian<9> wait_share_;
};

}  // namespace outrider
