#include "client/session/wire_ids.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace outrider {

void WireIds::Clear() {
  pairs_.clear();
  last_ = Sketch::kRoot;
}

NodeId WireIds::Add(NodeId node) {
  OUTRIDER_CHECK(pairs_.empty() || pairs_.back().node < node, "nodes are sent in order");
  pairs_.push_back({node, ++last_});
  return last_;
}

std::optional<NodeId> WireIds::OnWire(NodeId node) const {
  if (node == Sketch::kRoot) return Sketch::kRoot;
  const auto at = std::ranges::lower_bound(pairs_, node, {}, &Pair::node);
  if (at == pairs_.end() || at->node != node) return std::nullopt;
  return at->wire;
}

std::optional<NodeId> WireIds::InSketch(NodeId wire) const {
  if (wire == Sketch::kRoot) return Sketch::kRoot;
  const auto at = std::ranges::lower_bound(pairs_, wire, {}, &Pair::wire);
  if (at == pairs_.end() || at->wire != wire) return std::nullopt;
  return at->node;
}

NodeId WireIds::UpTo(NodeId wire) const {
  const auto after = std::ranges::upper_bound(pairs_, wire, {}, &Pair::wire);
  return after == pairs_.begin() ? Sketch::kRoot : std::prev(after)->node;
}

void WireIds::Retain(const Sketch& sketch) {
  std::erase_if(pairs_, [&](const Pair& pair) { return sketch.Find(pair.node) == nullptr; });
}

}  // namespace outrider
