// The policy that a controller chooses (controller.h): ours, its tree with the verdict awaited, or
// to draft nothing; and what the target is to do at a dry root, to go with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/speculation/controller.h"
#include "common/speculation/ours_policy.h"
#include "common/speculation/tree_policy.h"

namespace outrider {

class AutoPolicy : public TreePolicy {
 public:
  std::string_view name() const override { return "auto"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;
  void Learn(const DraftView& draft, const Walk& verdict) override;
  std::optional<Dry> dry() const override;

 private:
  bool drafts() const { return controller_.way() != Controller::Way::kTargetAlone; }
  OursPolicy& chosen() { return controller_.way() == Controller::Way::kAwait ? awaited_ : ours_; }

  Controller controller_;
  bool has_chosen_ = false;
  OursPolicy ours_{/*ahead=*/true};
  OursPolicy awaited_{/*ahead=*/false};
};

}  // namespace outrider
