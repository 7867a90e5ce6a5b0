// What a Verdict leaves to be worked out, the same way on either side.
#pragma once

#include <cstdint>
#include <optional>

#include "common/tokens/sketch.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// `leaf` is no later than the `seen` that is set.
inline void SetLeaf(NodeId leaf, v1::Verdict& verdict) {
  verdict.set_leaf_back(leaf == Sketch::kRoot ? 0 : verdict.seen() + 1 - leaf);
}

// nullopt: no node has such an id.
inline std::optional<NodeId> LeafOf(const v1::Verdict& verdict) {
  if (verdict.leaf_back() == 0) return Sketch::kRoot;
  if (verdict.leaf_back() > verdict.seen()) return std::nullopt;
  return verdict.seen() + 1 - verdict.leaf_back();
}

// Of a TokenHistory's hash, the part that a verdict has.
inline uint32_t VerdictHash(uint64_t hash) {
  return static_cast<uint32_t>(hash);
}

}  // namespace outrider
