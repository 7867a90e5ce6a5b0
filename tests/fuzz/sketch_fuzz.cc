// Whatever is grown, committed and pruned, from bytes that anybody may have sent: growth is taken
// or refused, and the sketch stays a trie within its bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/tokens/sketch.h"

using outrider::DraftedNode;
using outrider::NodeId;
using outrider::Sketch;
using outrider::TokenId;

namespace {

// Numbers from the input, zeros when it is used up.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = word << 8 | Byte();
    return word;
  }

 private:
  std::span<const uint8_t> bytes_;
};

void CheckNodes(const Sketch& sketch) {
  const std::span<const Sketch::Node> nodes = sketch.nodes();
  OUTRIDER_CHECK(nodes.size() <= sketch.node_count_max(), "nodes are bounded");
  OUTRIDER_CHECK(sketch.way_length() <= sketch.node_count_max() + 1, "the way is bounded");
  static const Sketch::Node kAbove = {.id = 0, .parent = 0, .token = 0, .depth = 0, .doubt = 0};
  NodeId last = 0;
  for (const Sketch::Node& node : nodes) {
    OUTRIDER_CHECK(node.id > last, "ids ascend");
    OUTRIDER_CHECK(node.id <= sketch.last_id() || node.id >= Sketch::kOwnIds,
                   "and are the device's or its own");
    last = node.id;
    const Sketch::Node* const parent =
        node.parent == Sketch::kRoot ? &kAbove : sketch.Find(node.parent);
    OUTRIDER_CHECK(parent != nullptr && parent->id < node.id, "parents come first");
    OUTRIDER_CHECK(node.depth == parent->depth + 1, "a child is one deeper");
    OUTRIDER_CHECK(node.doubt - parent->doubt <= Sketch::kEdgeDoubtMax, "and no less doubtful");
    OUTRIDER_CHECK(sketch.Child(node.parent, node.token) == &node, "and the only one of its kind");
  }
}

void CheckTaken(const Sketch& sketch, uint32_t count) {
  static Sketch::Taken taken;
  sketch.Take(count, taken);
  OUTRIDER_CHECK(taken.ids.size() == std::min<size_t>(count, sketch.nodes().size()),
                 "as many as asked for");
  OUTRIDER_CHECK(std::ranges::is_sorted(taken.ids), "ids ascend");
  for (size_t i = 0; i < taken.nodes.size(); ++i) {
    const Sketch::Node& node = *sketch.Find(taken.ids[i]);
    OUTRIDER_CHECK(taken.nodes[i].token == node.token, "a node is what it was");
    OUTRIDER_CHECK(taken.IdOf(taken.nodes[i].parent) == node.parent, "and where it was");
  }
}

void GrowOne(Sketch& sketch, Bytes& bytes) {
  const uint8_t how = bytes.Byte();
  const bool wild = how >= 0xf0;
  const NodeId id = wild ? bytes.Word() : sketch.last_id() + 1 + how % 3;
  const NodeId parent = wild ? bytes.Word() : bytes.Byte();
  const auto token = static_cast<TokenId>(wild ? bytes.Word() : bytes.Byte() % 4);
  const uint8_t sight = bytes.Byte();
  const uint32_t doubt = wild ? bytes.Word() : sight % 16;
  const uint32_t seen =
      wild ? bytes.Word() : sketch.commit_count() - std::min(sketch.commit_count(), sight / 16u);
  const size_t before = sketch.nodes().size();
  const auto fate = sketch.Grow({id, parent, token, doubt}, seen);
  const bool grown = fate.ok() && *fate == Sketch::Fate::kGrown;
  OUTRIDER_CHECK(sketch.nodes().size() == before + (grown ? 1 : 0), "one node is one node");
  OUTRIDER_CHECK(!fate.ok() || sketch.last_id() == id, "every id is used once");
}

void CommitOne(Sketch& sketch, Bytes& bytes, NodeId leaf) {
  static std::vector<TokenId> path, committed;
  const auto next = static_cast<TokenId>(bytes.Byte() % 4);
  const NodeId node = sketch.Find(leaf) == nullptr ? Sketch::kRoot : leaf;
  sketch.PathTo(node, path);
  committed.clear();
  sketch.Commit(node, next, committed);
  path.push_back(next);
  OUTRIDER_CHECK(committed == path, "what is committed is the path and what comes next");
}

// Nodes of its own below any node; the device is silent meanwhile, and they go before it speaks again.
void GrowOwn(Sketch& sketch, Bytes& bytes) {
  for (uint32_t i = bytes.Byte() % 8; i > 0; --i) {
    const size_t place = bytes.Byte() % (sketch.nodes().size() + 1);
    const NodeId parent = place == 0 ? Sketch::kRoot : sketch.nodes()[place - 1].id;
    const auto token = static_cast<TokenId>(bytes.Byte() % 4);
    const auto node = sketch.GrowOwn(parent, token);
    OUTRIDER_CHECK(node.has_value() || sketch.nodes().size() == sketch.node_count_max(),
                   "there is room, or none");
    OUTRIDER_CHECK(!node || sketch.Child(parent, token)->id == *node, "it is where it was put");
    CheckNodes(sketch);
    if (bytes.Byte() % 4 == 0) CommitOne(sketch, bytes, node.value_or(Sketch::kRoot));
    CheckNodes(sketch);
  }
  sketch.DropOwn();
  OUTRIDER_CHECK(sketch.nodes().empty() || sketch.nodes().back().id < Sketch::kOwnIds,
                 "none of its own is left");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(std::span(data, size));
  Sketch sketch(1 + bytes.Byte() % 20);
  while (!bytes.empty()) {
    const uint8_t what = bytes.Byte();
    switch (what % 16) {
      case 0:
        CommitOne(sketch, bytes, bytes.Byte());
        break;
      case 1:
        sketch.Prune(bytes.Byte());
        break;
      case 2:
        CheckTaken(sketch, bytes.Byte() % 24);
        break;
      case 3:
        if (what == 0xf3) sketch.Reset(bytes.Word());
        if (what == 0x13) GrowOwn(sketch, bytes);
        break;
      default:
        GrowOne(sketch, bytes);
    }
    CheckNodes(sketch);
  }
  return 0;
}
