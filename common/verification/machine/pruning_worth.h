// Whether a target's passes are to be pruned (engine/tree_pruning.h): by what it has come to of
// late.
//
// What pruning spares of passes, s rows, takes s * b of time less, b being the price of a row;
// finding out which nodes to take out takes the exits' time, e; and l tokens of a pass are lost,
// which a later one has to bring. So it pays while
//
//   s * b - e  >  l * t        t: the time of a token
//
// s, e and l are known from passes that are only watched: nothing is taken out of them, and what
// the pruned tree would have yielded is seen beside what the whole one does. So a trial loses no
// token, and two passes of different luck need not be compared. The first passes are watched, and
// later one in a while: while it pays more often, since then what it costs may change at any time.
//
// Where a pass waits for flash whatever its rows, b is next to nothing, and nothing is pruned.
//
//   worth.Next()                                  // for the run that begins
//   worth.Watched(pruned, exit_time);             // what it would have come to
//   worth.Judge(row_price, second_price)          // in tokens: of a row, of a second
//
// Threads: as a vector.
#pragma once

#include <cstdint>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"
#include "common/engine/engine.h"
#include "common/verification/machine/pruning_way.h"

namespace outrider {

class PruningWorth {
 public:
  static constexpr uint32_t kTrial = 16;  // passes watched before anything is decided
  static constexpr uint32_t kWatchWhileOn = 16;
  static constexpr uint32_t kWatchWhileOff = 64;

  explicit PruningWorth(PruningWay way) : way_(way) {}

  Pruning Next() {
    if (way_ != PruningWay::kAuto) return way_ == PruningWay::kOn ? Pruning::kOn : Pruning::kOff;
    if (watched_ < kTrial) return Pruning::kWatch;
    ++turns_;
    if (turns_ % (pays_ ? kWatchWhileOn : kWatchWhileOff) == 0) return Pruning::kWatch;
    return pays_ ? Pruning::kOn : Pruning::kOff;
  }

  // A run whose passes were watched has ended: what became of them together, and its exits' time.
  void Watched(const Pruned& pruned, Duration exit_time);
  // `row_price` and `second_price` are what a row and a second cost, in tokens.
  void Judge(double row_price, double second_price);

  bool pays() const { return pays_; }

 private:
  const PruningWay way_;
  bool pays_ = false;
  uint32_t watched_ = 0;
  uint32_t turns_ = 0;
  // Of watched runs.
  RecentMean rows_;
  RecentMean lost_;
  RecentMean seconds_;  // of exits
};

}  // namespace outrider
