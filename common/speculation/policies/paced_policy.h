// What LLMCad and EdgeLLM have in common: branches that grow one token at a time, a pacer that says
// which is next, and the fallback rule that says when to verify.
//
// A branch is the way from the root to a node without children. Its most probable next token
// lengthens it, and every other candidate with more than 30 % begins a branch of its own (LLMCad,
// section 3.1). While the target verifies, the same goes on provisionally, held (LLMCad,
// section 3.4; EdgeLLM, section III-D); when the verdict confirms it, it is the beginning of the
// next tree.
//
// What the papers leave open: a tree is not grown beyond what a pass takes.
//
// With one branch there is nothing to pace, and the two are one policy: so it is with any draft
// whose second guess is never above 30 %. They part where branches differ in length and confidence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/speculation/policies/fallback_rule.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class PacedPolicy : public TreePolicy {
 public:
  static constexpr double kBranchConfidence = 0.30;

  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;
  void Learn(const DraftView& draft, const DraftVerdict& verdict) override;

  const FallbackRule& fallback() const { return fallback_; }

 protected:
  // `alpha` as FallbackRule has it.
  explicit PacedPolicy(std::optional<double> alpha) : fallback_(alpha) {}

  // How far a branch is behind the length it should have: of a tree of `tokens`, the branch having
  // `confidence` and `length`, all branches `confidence_sum` between them.
  virtual double Shortfall(uint32_t tokens, double confidence, double confidence_sum,
                           uint32_t length) const = 0;

 private:
  bool Due(const DraftView& draft);
  double TreeConfidence(const DraftView& draft);

  FallbackRule fallback_;
  std::vector<uint8_t> is_leaf_;  // scratch
};

}  // namespace outrider
