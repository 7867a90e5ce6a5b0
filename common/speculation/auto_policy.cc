#include "common/speculation/auto_policy.h"

namespace outrider {

void AutoPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  if (drafts()) chosen().Join(draft, candidates);
}

void AutoPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  if (drafts()) chosen().Expand(draft, batch);
}

Sending AutoPolicy::Send(const DraftView& draft, bool drafting) {
  return drafts() ? chosen().Send(draft, drafting) : Sending::kHold;
}

void AutoPolicy::Learn(const DraftView& draft, const Walk& verdict) {
  if (drafts()) chosen().Learn(draft, verdict);
  controller_.Choose(draft.costs);
  has_chosen_ = true;
}

std::optional<Dry> AutoPolicy::dry() const {
  if (!has_chosen_) return std::nullopt;
  const Controller::Way way = controller_.way();
  return way == Controller::Way::kAwait || way == Controller::Way::kWait ? Dry::kWait : Dry::kAlone;
}

}  // namespace outrider
