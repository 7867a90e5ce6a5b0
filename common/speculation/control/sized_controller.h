// One policy whatever happens, in passes as large as its rows are worth (pass_size.h).
#pragma once

#include <memory>
#include <utility>

#include "common/speculation/control/controller.h"
#include "common/speculation/control/pass_size.h"

namespace outrider {

class SizedController final : public Controller {
 public:
  SizedController(std::unique_ptr<TreePolicy> policy, const ControlSetup& setup)
      : policy_(std::move(policy)), size_(setup) {
    course_ = {.placement = setup.target_is_here ? Placement::kLocal : Placement::kSplit,
               .growth = policy_.get(),
               .pass_nodes = size_.nodes()};
  }

  const Course& course() const override { return course_; }
  void Decided(const DraftView& draft) override {
    size_.Decided(draft);
    course_.pass_nodes = size_.nodes();
  }

 private:
  const std::unique_ptr<TreePolicy> policy_;
  PassSize size_;
  Course course_;
};

}  // namespace outrider
