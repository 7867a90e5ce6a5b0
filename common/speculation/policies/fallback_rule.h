// When drafting has become too uncertain and the target is to verify: the self-adaptive fallback of
// LLMCad (section 3.3) and EdgeLLM (section III-C).
//
// T_c, the cumulative confidence of the most confident branch, falls with every token; below alpha,
// the target is asked. Alpha follows how right the draft has been:
//
//   alpha *= 0.5                                    when all of the best matching branch was right
//   alpha /= T_c ^ ((N_all - N_correct) / N_all)    otherwise
//
// The quotient may exceed 1, and one token is drafted for a pass until the draft is right again;
// the papers bound it nowhere, nor does this. What the rule is worth is seen beside an alpha that
// stays where it is; at 0 only a full pass is verified.
#pragma once

#include <cstdint>
#include <optional>

namespace outrider {

class FallbackRule {
 public:
  static constexpr double kAlphaInitial = 0.01;

  // Alpha for good; none: it follows the draft.
  explicit FallbackRule(std::optional<double> fixed = {})
      : alpha_(fixed.value_or(kAlphaInitial)), is_fixed_(fixed.has_value()) {}

  bool Due(double tree_confidence) const { return tree_confidence < alpha_; }

  // `tree_confidence` is T_c as it was when the pass was asked for. Of the branch that matched
  // best: its tokens, and how many of them the target chose.
  void Verified(double tree_confidence, uint32_t all, uint32_t correct);

  double alpha() const { return alpha_; }

 private:
  double alpha_;
  bool is_fixed_;
};

}  // namespace outrider
