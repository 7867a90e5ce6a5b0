// A controller that moves: drafting is left to the server after so many verdicts, taken back after as
// many, and so on; the rest of the course is another controller's. It shows that nothing depends on
// where a text was drafted.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/speculation/control/controller.h"
#include "common/speculation/policies/resting_policy.h"

namespace outrider {

class MovingController final : public Controller {
 public:
  MovingController(std::unique_ptr<Controller> moved, uint32_t verdicts)
      : moved_(std::move(moved)), verdicts_(verdicts), course_(moved_->course()) {}

  const Course& course() const override { return course_; }
  void Hinted(HintWorth worth) override { moved_->Hinted(worth); }
  void Decided(const DraftView& draft) override {
    moved_->Decided(draft);
    course_ = moved_->course();
    if (++count_ / verdicts_ % 2 == 0) return;
    course_.placement = Placement::kServer;
    course_.growth = &nothing_;
  }

 private:
  const std::unique_ptr<Controller> moved_;
  const uint32_t verdicts_;
  uint32_t count_ = 0;
  RestingPolicy nothing_;
  Course course_;
};

}  // namespace outrider
