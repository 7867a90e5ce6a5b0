#include "common/verification/machine/pruning_worth.h"

namespace outrider {

void PruningWorth::Watched(const Pruned& pruned, Duration exit_time) {
  ++watched_;
  rows_.Add(static_cast<double>(pruned.rows));
  lost_.Add(pruned.lost_count);
  seconds_.Add(Seconds(exit_time));
}

void PruningWorth::Judge(double row_price, double second_price) {
  pays_ = watched_ >= kTrial &&
          rows_.Value() * row_price - seconds_.Value() * second_price > lost_.Value();
}

}  // namespace outrider
