// How probable each outcome of the running pass is, and so how probable it is that the text passes
// through a node.
//
// An outcome is a leaf, a node the pass has taken or the root, and the token that comes next, which
// is not one of the leaf's children in the pass. The prior is the draft's: at every node its
// children have their confidences and "something else" has what is left; so the outcomes of a node
// that the text reaches are its children outside the pass, and something else. All of them add up
// to one.
//
// The newest hint h, which holds with probability q, moves that mass:
//
//   P(h) = q          P(o) = (1 - q) prior(o) / (1 - prior(h))  for every other outcome
//
// A hinted next that is none of the leaf's children is one of countless tokens that the draft did
// not think of: its prior is nothing. Nodes below the pass follow their outcome: how the text goes
// on after it, a hint does not say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class OutcomePosterior {
 public:
  struct Hint {
    NodeId leaf;
    TokenId next;
    double probability;
    uint32_t exit = 0;  // by depth
  };

  // So that Spread() allocates nothing for so many nodes.
  void Reserve(size_t node_count) { on_way_.reserve(node_count); }

  void Take(const Hint& hint) { hint_ = hint; }
  void Forget() { hint_.reset(); }
  const std::optional<Hint>& hint() const { return hint_; }

  // Writes `claimed`, `path` and `reach` of every node from the confidences and the hint. Children
  // that claim more than certainty between them each get their share of it.
  void Spread(std::span<DraftNode> nodes);

  // Of nodes that were spread: the probability of the outcome (leaf, next), next being one of the
  // leaf's children outside the pass; and that next is none of its children.
  static double Probability(std::span<const DraftNode> nodes, uint32_t leaf, TokenId next);
  static double SomethingElse(std::span<const DraftNode> nodes, uint32_t leaf);

 private:
  std::optional<Hint> hint_;
  std::vector<bool> on_way_;  // scratch: whether a node lies above the hinted outcome
};

}  // namespace outrider
