// Which mode, policy and settings a session uses: the fastest, by what it has measured and by what
// the model says of those it has not tried.
//
// Every arm is a way to decode. A model predicts the time per token of each from the link, the
// target, the draft and how often the draft's tokens are chosen (arm_model.h); what an arm has
// shown when it ran corrects its prediction. The controller runs the arm that looks fastest, and
// now and then one that could be faster than it looks.
//
// Pure: told the time with every verdict, asked between verdicts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/speculation/cost_model.h"
#include "common/speculation/policies.h"

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
  explicit Controller(std::span<const Setting> arms);

  // What to use from the next root on. Valid as long as the controller.
  const Setting& Choose(const CostModel& costs);

  // A verdict under the setting that was chosen last: what it committed, and how long after the one
  // before it came.
  void Learn(const CostModel& costs, uint32_t token_count, double ms);
};

}  // namespace outrider
