// Whether hints are worth their messages: wanted at first, if they were before, and for as long as
// one verdict in kRare or more finds below its root what a hint had named first. Then they are left
// out, and tried again now and then: for twice as long each time that it comes to nothing.
//
// A function of what it was told: no clock, no randomness, no allocation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/speculation/control/controller.h"

namespace outrider {

class HintValue {
 public:
  static constexpr uint32_t kTrial = 128;  // verdicts for which hints had come
  static constexpr uint32_t kRare = 64;
  static constexpr uint32_t kRest = 512;  // verdicts without

  explicit HintValue(bool wanted) : wanted_(wanted) {}

  void Add(HintWorth worth) {
    if (!wanted_) return Rest();
    if (worth == HintWorth::kNone) return;
    ++hinted_;
    if (worth == HintWorth::kDrafted) ++useful_;
    if (hinted_ < kTrial) return;
    wanted_ = useful_ * kRare >= hinted_;
    if (wanted_) rest_max_ = kRest;
    hinted_ = useful_ = 0;
  }

  bool wanted() const { return wanted_; }

 private:
  static constexpr uint32_t kRestMax = 8192;

  void Rest() {
    if (++rested_ < rest_max_) return;
    rested_ = 0;
    rest_max_ = std::min(2 * rest_max_, kRestMax);
    wanted_ = true;
  }

  bool wanted_;
  uint32_t hinted_ = 0;  // verdicts of this trial
  uint32_t useful_ = 0;  // of them
  uint32_t rested_ = 0;
  uint32_t rest_max_ = kRest;
};

}  // namespace outrider
