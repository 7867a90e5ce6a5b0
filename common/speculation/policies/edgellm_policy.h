// EdgeLLM's pacer: a branch's length should be in proportion to its probability, L_i = C_i M, and
// the branch that is the most short of it grows (section III-B, equations 1 and 2):
//
//   D = max_i  M C_i - T_i          M the tokens of the tree, C_i and T_i confidence and length
#pragma once

#include <optional>
#include <string_view>

#include "common/speculation/policies/paced_policy.h"

namespace outrider {

class EdgellmPolicy : public PacedPolicy {
 public:
  explicit EdgellmPolicy(std::optional<double> alpha = {}) : PacedPolicy(alpha) {}

  std::string_view name() const override { return "edgellm"; }

 protected:
  double Shortfall(uint32_t tokens, double confidence, double /*confidence_sum*/,
                   uint32_t length) const override {
    return tokens * confidence - length;
  }
};

}  // namespace outrider
