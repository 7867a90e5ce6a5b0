#include "client/session/tally.h"

#include <utility>

namespace outrider {

void Tally::Hinted(const OutcomePosterior::Hint& hint, bool is_grown) {
  ++stats_.hints;
  // A later exit often says what an earlier one has said: the first decides what the hint was for.
  const bool is_repeated = hint_ && hint_->leaf == hint.leaf && hint_->next == hint.next;
  if (!is_repeated) was_grown_before_hint_ = is_grown;
  hint_ = hint;
}

HintWorth Tally::Decided(const v1::Verdict& verdict, std::optional<NodeId> leaf,
                         std::span<const TokenId> tokens, bool is_grown) {
  ++stats_.passes;
  stats_.tokens += tokens.size();
  stats_.nodes_accepted += tokens.size() - 1;
  stats_.nodes_passed += verdict.nodes();
  if (!leaf) ++stats_.passes_drafted_there;
  const bool is_hinted = hint_ && hint_->leaf == leaf && hint_->next == tokens.back();
  if (is_hinted) ++stats_.hints_right;
  if (is_grown) {
    ++(!is_hinted               ? stats_.roots_grown_unhinted
       : was_grown_before_hint_ ? stats_.roots_grown_before_hint
                                : stats_.roots_grown_after_hint);
  }
  const bool was_of_use = is_hinted && is_grown && !was_grown_before_hint_;
  const bool was_there = std::exchange(hint_, std::nullopt).has_value();
  return was_of_use ? HintWorth::kDrafted : was_there ? HintWorth::kIdle : HintWorth::kNone;
}

}  // namespace outrider
