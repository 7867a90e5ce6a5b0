// Chooses the way that is fastest, as far as the times tell that were measured: policy `auto`.
//
// There are five, of many that were tried over a grid of round trips, targets and drafts
// (bench/README.md); no other won by more than a few percent anywhere. What divides them is how
// long growth takes to answer a verdict, D, the round trip and a batch, against a pass, T, and a
// token, t:
//
//   D + t above T         ours, and the target goes on alone, but for growth that is due so soon
//                         that a pass begun before it would cost more than it gains
//                         (growth_due.h). So, too, where the target is shared by so many that it
//                         takes no drafted node: then nothing is drafted, and nothing to be waited for
//   D + t below T         ours, and the target waits for growth: a pass begun before it would be
//                         over after it, and gain less than that delays. Near the target that is so
//                         as long as D is below T if rows are known to cost next to nothing, for
//                         there a pass of the root alone takes no less than one with growth. A
//                         target that shares cores with the draft always waits: otherwise it would
//                         take those that the growth needs. A drafter that has nothing to say says
//                         so, and is not waited for (sketcher.h)
//   near, and a pass      so, too, but the device waits for the verdict: a tree that is grown in its
//   yields little         light is better, and has more of such rows. Where a pass yields much, what
//                         was drafted before the verdict is as good
//   whenever the first    the target alone: nothing is drafted. Then nothing tells whether a draft
//   is no gain            would be one by now, so it is tried again, now and then and when T
//                         changes
//   where a draft at      drafting is left to the server: no round trip stands between its draft and
//   the server is sooner  its target, but they take turns, and its draft may be another
//
// The first three are told apart by what is known of D and T from the first verdicts on: nothing
// has to be tried to know it. Whether drafting gains anything at all is measured: the time of a
// token, against that of a pass without drafted nodes. And so is what a draft at the server makes of
// it: text begins there, and once it has been here for a while it is tried again where the target goes
// on without growth, or stands idle between passes (server_trial.h).
//
// So it is where text is to come soon. Where a server's work is to be little (ControlSetup::objective)
// its target is never told to go on alone, nor its draft to draft; and nothing is drafted where that
// takes more of the target than it spares. In between it goes on alone if that is at least as much
// sooner as it is more work: t tells the time of a token, T / g the work, g being the tokens of a pass, so
//
//   (T + D) / T  >  (g, when it waits)^2
//
// since a pass that does not wait may have a token at the least.
//
// How many nodes a pass takes is chosen beside it (pass_size.h), and whether hints are worth their
// messages (hint_value.h).
//
// A function of what it was told: no clock, no randomness, no allocation once its vectors have
// grown.
#pragma once

#include <cstdint>

#include "common/speculation/control/controller.h"
#include "common/speculation/control/hint_value.h"
#include "common/speculation/control/pass_size.h"
#include "common/speculation/control/server_trial.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/policies/ours_policy.h"
#include "common/speculation/policies/resting_policy.h"

namespace outrider {

class AutoController final : public Controller {
 public:
  enum class Way {
    kAwait,        // the verdict is awaited, and so is growth
    kWait,         // drafted ahead; growth is awaited
    kGoOn,         // drafted ahead; growth is awaited when it is due
    kTargetAlone,  // nothing is drafted
    kAtServer,     // nothing is drafted here
  };

  static constexpr double kNear = 0.15;      // the round trip / T
  static constexpr double kNone = 1.0 / 25;  // the round trip / T
  static constexpr double kLate = 0.75;      // D / T, near the target
  static constexpr double kLittleYield = 4;  // tokens of a pass
  static constexpr double kYieldBeside = 5;  // the same, where there is next to no round trip
  static constexpr double kDearRows = 0.27;  // what drafted rows take of T
  static constexpr double kFreeRows = 0.1;   // the same

  // Verdicts until drafting is judged, by so many that a gain of a few percent is not lost to
  // chance, far from the target with a good draft; and verdicts without any, where it was no gain.
  static constexpr uint32_t kTrial = 256;
  static constexpr uint32_t kRest = 512;

  static constexpr double kYieldAssumed = 2;  // tokens of a pass that has waited

  explicit AutoController(const ControlSetup& setup);

  const Course& course() const override { return course_; }
  Findings findings() const override;
  void Hinted(HintWorth worth) override { hints_.Add(worth); }
  void Decided(const DraftView& draft) override;

  // After a verdict that `costs` has been told of: the way from here on.
  Way Choose(const CostModel& costs);

  Way way() const { return way_; }

 private:
  Course CourseOf(Way way);
  bool MayFail(Way way) const;
  bool Gains(const CostModel& costs);
  Way BestDrafting(const CostModel& costs) const;
  bool MayGoOn(double delay_ms, double pass_ms) const;
  bool SparesWork(const CostModel& costs) const;
  double RowShare(const CostModel& costs) const;
  bool IsNear(const CostModel& costs) const;
  bool YieldsLittle(const CostModel& costs) const;
  Way Judged(const CostModel& costs);
  Way JudgedHere(const CostModel& costs);
  bool MayGainAtServer(const CostModel& costs) const;

  Way way_ = Way::kWait;
  uint32_t verdicts_ = 0;  // since drafting here began or ended, without those at the server
  double alone_ms_ = 0;    // a pass when it ended
  CostModel::Text counted_;
  double tokens_ = 0;  // sums over verdicts that count
  double ms_ = 0;
  double waiting_tokens_ = kYieldAssumed;  // of a pass, the last time that it waited

  const ControlSetup setup_;
  const bool may_ask_server_;
  ServerTrial server_;
  Way otherwise_ = Way::kWait;  // than at the server
  PassSize size_;
  HintValue hints_;
  OursPolicy ours_{/*ahead=*/true};
  OursPolicy awaited_{/*ahead=*/false};
  RestingPolicy nothing_;
  Course course_ = {.growth = &ours_};
};

}  // namespace outrider
