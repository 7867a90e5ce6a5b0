// LEVER's drafting: the tree with the most expected tokens for its time (section 4.2, algorithm 1).
//
//   G(T) = 1 + sum of b(u)              expected tokens; b(u) the chance that the walk reaches u
//   C(T) = C_draft + C_verify(T)        expected time of the whole cycle
//
// The candidate with the greatest b(v) / dC(v|T) joins while that exceeds G(T) / C(T), and its own
// children are drafted; when the best one does not, the tree is verified. C_draft is what was spent
// on this tree, C_verify comes from the profile by nodes and leaves (latency_profile.h), with the
// round trip and the queue where there are any; dC is one node more to verify and one more to
// draft.
//
// b(v) = b(u) Calibrate(p(v|u), r): the draft's probability times the reliability r <= 1. The paper
// describes r and gives no formula: "when target tokens often appear in the draft candidate sets,
// the calibrated value stays close to p; otherwise, it is down-weighted". Here r is how often they
// do, over how often the candidate sets claimed they would, both of late.
//
// Drafting a batch (section 4.4): a few high-value candidates join and are expanded together once
// the tree is large, one by one while it is small. The paper gives no numbers; here it is one for
// every kNodesPerExpansion nodes of the tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/recent_median.h"
#include "common/speculation/costs/latency_profile.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class LeverPolicy : public TreePolicy {
 public:
  static constexpr uint32_t kNodesPerExpansion = 4;

  std::string_view name() const override { return "lever"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;
  void Learn(const DraftView& draft, const DraftVerdict& verdict) override;

  double reliability() const;

 private:
  // A tree as it is being built: T, G(T) and what C_verify needs.
  struct Tree {
    double gain = 1;
    uint32_t nodes = 0;
    uint32_t leaves = 0;  // without nodes there is none
    uint32_t unexpanded = 0;
  };

  Tree Measure(const DraftView& draft);
  double VerifyMs(const DraftView& draft, uint32_t nodes, uint32_t leaves) const;
  uint32_t BatchNodes(const DraftView& draft, const Tree& tree) const;

  double draft_ms_ = 0;  // on this tree
  RecentMean found_;    // of the candidate sets on accepted ways: whether the target's token was in
  RecentMean claimed_;  // and the probability they gave that
  // Scratch.
  std::vector<double> benefit_;  // b, by node
  std::vector<uint8_t> is_leaf_;
  std::vector<uint8_t> joined_;  // by candidate
};

}  // namespace outrider
