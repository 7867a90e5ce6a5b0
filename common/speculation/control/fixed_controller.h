// The same course whatever happens: a policy that somebody has picked.
#pragma once

#include <memory>
#include <utility>

#include "common/speculation/control/controller.h"

namespace outrider {

class FixedController final : public Controller {
 public:
  // `policy` must outlive it, or is its own.
  explicit FixedController(TreePolicy& policy, Placement placement = Placement::kSplit)
      : course_({.placement = placement, .growth = &policy}) {}
  FixedController(std::unique_ptr<TreePolicy> policy, Placement placement)
      : owned_(std::move(policy)), course_({.placement = placement, .growth = owned_.get()}) {}

  const Course& course() const override { return course_; }
  void Decided(const DraftView& /*draft*/) override {}

 private:
  const std::unique_ptr<TreePolicy> owned_;
  const Course course_;
};

}  // namespace outrider
