// How probable each outcome of the running pass is, and so how probable it is that the text passes
// through a node.
//
// An outcome is a leaf, a node the pass has taken or the root, and the token that comes next, which
// is not one of the leaf's children in the pass. The prior is the draft's: at every node its
// children have their confidences and "something else" has what is left; so the outcomes of a node
// that the text reaches are its children outside the pass, and something else. All of them add up
// to one.
//
// Of the hints that are there the one that is believed first (live_hints.h), h, which holds with
// probability q, all things considered (hint_trust.h), moves that mass:
//
//   P(h) = q          P(o) = (1 - q) prior(o) / (1 - prior(h))  for every other outcome
//
// A hinted next that is none of the leaf's children is one of countless tokens that the draft did
// not think of: its prior is nothing. Nodes below the pass follow their outcome: how the text goes
// on after it, a hint does not say.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/drafting/live_hints.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class OutcomePosterior {
 public:
  using Hint = LiveHint;

  explicit OutcomePosterior(HintBelief belief = HintBelief::kNewest) : hints_(belief) {}

  // So that Spread() allocates nothing for so many nodes.
  void Reserve(size_t node_count) { on_way_.reserve(node_count); }

  // Returns the hint's rank (live_hints.h).
  double Take(const Hint& hint) { return hints_.Take(hint); }
  void Forget() { hints_.Forget(); }

  // Writes `claimed`, `path` and `reach` of every node from the confidences and the hints. Children
  // that claim more than certainty between them each get their share of it.
  void Spread(std::span<DraftNode> nodes);

  // Of nodes that were spread: the probability of the outcome (leaf, next), next being one of the
  // leaf's children outside the pass; and that next is none of its children.
  static double Probability(std::span<const DraftNode> nodes, uint32_t leaf, TokenId next);
  static double SomethingElse(std::span<const DraftNode> nodes, uint32_t leaf);

 private:
  LiveHints hints_;
  std::vector<bool> on_way_;  // scratch: whether a node lies above the hinted outcome
};

}  // namespace outrider
