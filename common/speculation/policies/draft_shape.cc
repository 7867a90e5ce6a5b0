#include "common/speculation/policies/draft_shape.h"

namespace outrider {

uint32_t ChainTip(std::span<const DraftNode> nodes, uint32_t node) {
  uint32_t tip = node;
  uint32_t best = node;
  for (;;) {
    for (uint32_t i = tip + 1; i < nodes.size(); ++i) {  // children come after their parents
      if (nodes[i].parent != tip) continue;
      if (best == tip || nodes[i].confidence > nodes[best].confidence) best = i;
    }
    if (best == tip) return tip;
    tip = best;
  }
}

std::optional<uint32_t> BestCandidate(std::span<const DraftCandidate> candidates, uint32_t parent) {
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].parent != parent) continue;
    if (!best || candidates[i].confidence > candidates[*best].confidence) best = i;
  }
  return best;
}

}  // namespace outrider
