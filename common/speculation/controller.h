// Which way a session decodes: the fastest, as far as the times tell that it has measured.
//
// There are four, of many that were tried over a grid of round trips, targets and drafts
// (bench/README.md); no other won by more than a few percent anywhere. What divides them is how
// long growth takes to answer a verdict, D, the round trip and a batch, against a pass, T:
//
//   D not above T         ours, and the target waits for growth: up to kNear to go on alone would
//                         gain little or nothing, and take up to 40 % more passes
//   and next to no round  the verdict is awaited too where a pass yields little, since a tree that
//   trip                  is grown in its light is better
//   D more                ours, and the target never waits: what arrives ahead of it is a gain
//   whenever the last     the target alone: nothing is drafted. Then nothing tells whether a draft
//   is no gain            would be one by now, so it is tried again, now and then and when T
//   changes
//
// The first three are told apart by what is known of D and T from the first verdicts on: nothing
// has to be tried to know it. Whether drafting gains anything at all is measured: the time of a
// token, against that of a pass without drafted nodes.
//
// A function of what it was told: no clock, no randomness, no allocation.
#pragma once

#include <cstdint>

#include "common/speculation/cost_model.h"

namespace outrider {

class Controller {
 public:
  enum class Way {
    kAwait,        // the verdict is awaited, and so is growth
    kWait,         // drafted ahead; growth is awaited
    kGoOn,         // drafted ahead; nothing is awaited
    kTargetAlone,  // nothing is drafted
  };

  static constexpr double kNear = 1.2;         // D / T
  static constexpr double kVeryNear = 0.1;     // the round trip / T
  static constexpr double kLittleYield = 3.4;  // tokens of a pass

  // After a verdict that `costs` has been told of: the way from here on.
  Way Choose(const CostModel& costs);

  Way way() const { return way_; }

 private:
  Way BestDrafting(const CostModel& costs) const;
  Way Judged(const CostModel& costs);

  Way way_ = Way::kWait;
  uint32_t verdicts_ = 0;  // since drafting began or ended
  double alone_ms_ = 0;    // a pass when it ended
  double token_ms_ = 0;    // sum over verdicts that count
  uint32_t judged_ = 0;    // of them
};

}  // namespace outrider
