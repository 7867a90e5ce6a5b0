#include "common/speculation/controller.h"

#include <cmath>

#include "common/base/check.h"

namespace outrider {

Controller::Controller(std::span<const Setting> arms) {
  OUTRIDER_CHECK(!arms.empty(), "there is something to choose from");
  for (const Setting& setting : arms) arms_.push_back({.setting = setting});
}

double Controller::Optimistic(const Arm& arm) {
  return arm.ms / arm.tokens * (1 - kWidth / std::sqrt(arm.verdicts));
}

bool Controller::HasChanged(const Arm& arm) {
  const double usual_ms = arm.ms / arm.verdicts;
  return std::abs(arm.last_ms.Value() - usual_ms) > kChange * usual_ms;
}

const Setting& Controller::Choose() {
  chosen_ = 0;
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].trials < kTrials) {
      chosen_ = i;
      break;
    }
    if (Optimistic(arms_[i]) < Optimistic(arms_[chosen_])) chosen_ = i;
  }
  return arms_[chosen_].setting;
}

void Controller::Learn(uint32_t token_count, double ms) {
  OUTRIDER_CHECK(token_count > 0, "a verdict commits its next at the least");
  for (Arm& arm : arms_) {
    arm.verdicts *= kFading;
    arm.tokens *= kFading;
    arm.ms *= kFading;
  }
  Arm& arm = arms_[chosen_];
  ++arm.trials;
  arm.verdicts += 1;
  arm.tokens += token_count;
  arm.ms += ms;
  arm.last_ms.Add(ms);
  if (arm.trials <= kTrials || !HasChanged(arm)) return;
  for (Arm& any : arms_) any = {.setting = any.setting};
}

}  // namespace outrider
