// LLMCad's pacer: branches share the tree fairly by their confidence, and the one furthest below
// its share grows (section 3.2, equations 1 and 2):
//
//   f(x) = M C_x / sum(C) - T_x     M the tokens of the tree, C_x and T_x confidence and length
//
// The paper writes that the minimum of f is sought, which would grow the branch furthest above its
// share without end; max-min fairness, which it names as the principle, is the maximum.
#pragma once

#include <optional>
#include <string_view>

#include "common/speculation/policies/paced_policy.h"

namespace outrider {

class LlmcadPolicy : public PacedPolicy {
 public:
  explicit LlmcadPolicy(std::optional<double> alpha = {}) : PacedPolicy(alpha) {}

  std::string_view name() const override { return "llmcad"; }

 protected:
  double Shortfall(uint32_t tokens, double confidence, double confidence_sum,
                   uint32_t length) const override {
    return tokens * confidence / confidence_sum - length;
  }
};

}  // namespace outrider
