// One policy whatever happens, in passes as large as its rows are worth (pass_size.h), with hints while
// they are worth their messages (hint_value.h).
#pragma once

#include <memory>
#include <utility>

#include "common/speculation/control/controller.h"
#include "common/speculation/control/hint_value.h"
#include "common/speculation/control/pass_size.h"

namespace outrider {

class SizedController final : public Controller {
 public:
  SizedController(std::unique_ptr<TreePolicy> policy, const ControlSetup& setup)
      : policy_(std::move(policy)), size_(setup), hints_(!setup.before || setup.before->hints) {
    course_ = {.placement = setup.target_is_here ? Placement::kLocal : Placement::kSplit,
               .growth = policy_.get(),
               .pass_nodes = size_.nodes(),
               .hints = hints_.wanted()};
  }

  const Course& course() const override { return course_; }
  void Hinted(HintWorth worth) override { hints_.Add(worth); }
  void Decided(const DraftView& draft) override {
    size_.Decided(draft);
    course_.pass_nodes = size_.nodes();
    course_.hints = hints_.wanted();
  }

 private:
  const std::unique_ptr<TreePolicy> policy_;
  PassSize size_;
  HintValue hints_;
  Course course_;
};

}  // namespace outrider
