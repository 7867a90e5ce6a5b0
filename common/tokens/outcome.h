// What a pass is given and what it says, in tokens.
//
// A pass is the root and drafted nodes below it. At every node the target chooses a token; walking
// down from the root while a child holds the chosen token ends at a node whose choice leaves the
// tree. That node and that choice are the outcome: the path down to the node is what the target
// would have written, and the choice comes next.
//
// WalkDown is the one rule of acceptance: at every temperature, for every target, and for every
// simulation of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// A drafted token below the root or another node of the same pass.
struct DraftedNode {
  static constexpr uint32_t kRoot = UINT32_MAX;

  TokenId token;
  uint32_t parent;  // kRoot, or the index of a node before this one
};

struct Outcome {
  uint32_t node;  // the last node of the accepted path, or DraftedNode::kRoot for none of them
  TokenId next;

  bool operator==(const Outcome&) const = default;
};

// `choose(node, path)` is a StatusOr of the token that the target chooses after the root and
// `path`, the tokens down to and with `node`. It is asked along the accepted path only, from the
// root down; its first error is the answer. `path` holds the accepted tokens in the end. Nodes that
// `is_there(index)` denies, and so all below them, count as never drafted.
template <typename Choose, typename IsThere>
absl::StatusOr<Outcome> WalkDown(std::span<const DraftedNode> nodes, std::vector<TokenId>& path,
                                 const Choose& choose, const IsThere& is_there) {
  path.clear();
  uint32_t node = DraftedNode::kRoot;
  for (;;) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId chosen, choose(node, std::span<const TokenId>(path)));
    const auto child = std::ranges::find_if(nodes, [&](const DraftedNode& drafted) {
      return drafted.parent == node && drafted.token == chosen;
    });
    const auto index = static_cast<uint32_t>(child - nodes.begin());
    if (child == nodes.end() || !is_there(index)) return Outcome{node, chosen};
    node = index;
    path.push_back(chosen);
  }
}

template <typename Choose>
absl::StatusOr<Outcome> WalkDown(std::span<const DraftedNode> nodes, std::vector<TokenId>& path,
                                 const Choose& choose) {
  return WalkDown(nodes, path, choose, [](uint32_t) { return true; });
}

}  // namespace outrider
