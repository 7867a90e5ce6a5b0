// Which mode, policy and settings a session uses: the fastest, by what each has shown of late.
//
// Every arm is a way to decode, and has a time per token: what its verdicts took over what they
// committed, old ones fading. Each is tried kTrials times, in the order given; from then on the one
// runs that could be the fastest, the one with the least
//
//   time per token * (1 - kWidth / sqrt(verdicts, faded))
//
// so an arm that has not run for long is tried again, the sooner the closer it is to the best, and
// a change of the link, the load or the text is found out.
//
// Where the running arm's verdicts come in another time than they used to, the last few of them by
// kChange or more, the world has changed for all arms, and all are tried anew.
//
// A function of what it was told: no clock, no randomness, and no allocation after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/speculation/policies.h"
#include "common/speculation/recent_median.h"

namespace outrider {

enum class Mode {
  kSplit,          // the draft here, the target there
  kDraftOnServer,  // both there
  kTargetAlone,    // no draft
  kLocal,          // both here
};

// What the target does at a root that has no children: proto's DryPolicy.
enum class Dry { kAdaptive, kWait, kAlone };

struct Setting {
  Mode mode = Mode::kSplit;
  PolicyOptions policy;
  uint32_t pass_node_count = 16;  // R
  bool hints = true;
  Dry dry = Dry::kAdaptive;
};

class Controller {
 public:
  static constexpr double kWidth = 0.1;
  static constexpr double kFading = 0.98;  // of what all arms have shown, with every verdict
  static constexpr uint32_t kTrials = 3;
  static constexpr double kChange = 0.25;

  explicit Controller(std::span<const Setting> arms);

  // What to use from the next root on. Valid as long as the controller.
  const Setting& Choose();

  // A verdict under the setting that was chosen last: what it committed, and how long after the one
  // before it came.
  void Learn(uint32_t token_count, double ms);

 private:
  struct Arm {
    Setting setting;
    uint32_t trials = 0;
    double verdicts = 0;
    double tokens = 0;
    double ms = 0;
    RecentMedian<3> last_ms = {};
  };

  static bool HasChanged(const Arm& arm);
  static double Optimistic(const Arm& arm);

  std::vector<Arm> arms_;
  size_t chosen_ = 0;
};

}  // namespace outrider
