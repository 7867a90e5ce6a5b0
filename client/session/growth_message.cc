#include "client/session/growth_message.h"

#include <optional>

#include "common/base/check.h"

namespace outrider {
namespace {

// The confidence in this node alone.
uint32_t EdgeDoubt(const Sketch::Node& node, const Sketch& sketch) {
  const Sketch::Node* const parent = sketch.Find(node.parent);
  return node.doubt - (parent == nullptr ? 0 : parent->doubt);
}

}  // namespace

void GrowthWriter::Write(std::span<const Sketch::Node> nodes, const Sketch& sketch, WireIds& ids,
                         v1::Grow& grow) {
  nodes_.clear();
  NodeId parent_before = Sketch::kRoot;
  for (const Sketch::Node& node : nodes) {
    const std::optional<NodeId> parent = ids.OnWire(node.parent);
    OUTRIDER_CHECK(parent.has_value(), "a node is sent after its parent");
    const NodeId id = ids.Add(node.id);
    if (nodes_.empty()) grow.set_first_id(id);
    const uint32_t step = StepBetween(parent_before, *parent, id);
    nodes_.push_back({step, EdgeDoubt(node, sketch), static_cast<uint32_t>(node.token)});
    parent_before = *parent;
  }
  WriteGrowthBits(nodes_, told_, *grow.mutable_nodes());
}

}  // namespace outrider
