// Which drafted nodes of a pass are worth the layers to come, by what an exit half-way through it
// makes of them: LEVER's pruning (section 4.3).
//
// The exit scores, at every node, tokens that may follow: those of the node's children and, to be
// compared with, shadow tokens: an only child would else be as good as certain. (LEVER's are the
// node's own candidates; here they are all tokens that an exit scores for the pass: of its nodes,
// of what was drafted beside them, and frequent ones.) With p(u, a) the part of token a in what it
// makes of node u,
//
//   an edge (u, a) goes where p(u, a) < threshold, and with it what hangs below a
//
// but not the backbone, which from the root takes the child of largest p down to a leaf: one wrong
// guess near the root would else cost all of a pass. What hangs below it goes by its own edge. And
// not so much goes that fewer than `node_count_min` nodes stay: those that the text passes most
// probably, by the product of p down to them, come back. (LEVER leaves a pass whole of which too
// few nodes or leaves would stay.)
//
// So a pass may yield fewer tokens, and never other ones: at a node that is gone the target's
// choice finds no child.
//
//   TreePruning pruning({}, node_count_max);
//   const std::span<const bool> stays = pruning.Choose(nodes, chances);     // by node
//
// Memory:  taken when it is made.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/tokens/outcome.h"

namespace outrider {

class TreePruning {
 public:
  struct Options {
    float threshold = 0.05f;
    uint32_t node_count_min = 4;
  };

  TreePruning(const Options& options, uint32_t node_count_max);

  // `chances` by node: p of the edge that leads to it; none: the node is not in the pass any more,
  // nor is what hangs below it. What is returned stays until the next call.
  std::span<const bool> Choose(std::span<const DraftedNode> nodes,
                               std::span<const std::optional<float>> chances);

 private:
  void KeepBackbone();
  void KeepLikely();
  void KeepLeast();
  bool HasKeptParent(uint32_t node) const;

  const Options options_;

  // Of the present call.
  std::span<const DraftedNode> nodes_;
  std::span<const std::optional<float>> chances_;
  std::vector<float> paths_;       // by node: the product of p down to it
  std::unique_ptr<bool[]> stays_;  // by node
  uint32_t kept_count_ = 0;
};

}  // namespace outrider
