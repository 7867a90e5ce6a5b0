#include "common/tokens/sketch.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Bits of which any are as good as the others.
uint64_t Mix(uint64_t key) {
  return key * 0x9E3779B97F4A7C15 >> 32;  // 2^64 over the golden ratio
}

}  // namespace

Sketch::Sketch(uint32_t node_count_max) : node_count_max_(node_count_max) {
  OUTRIDER_CHECK(node_count_max > 0, "a sketch holds something");
  nodes_.reserve(node_count_max);
  by_id_.assign(std::bit_ceil(2 * size_t{node_count_max}), kNoNode);
  by_parent_ = by_id_;
  fates_.reserve(node_count_max);
  beside_.reserve(node_count_max);
  way_.reserve(size_t{node_count_max} + 1);
  // What growth may name, and each token of the way by the id of its node.
  names_.reserve(3 * (size_t{node_count_max} + 2));
}

// --- growth ---

absl::StatusOr<Sketch::Fate> Sketch::Grow(const Growth& growth, uint32_t seen) {
  OUTRIDER_RETURN_IF_ERROR(Check(growth, seen));
  if (seen > seen_) {
    seen_ = seen;
    if (const std::optional<Place> root = RootAsOf(seen)) ForgetWay(root->where);
  }
  const std::optional<Place> parent =
      growth.parent == kRoot ? RootAsOf(seen) : Locate(growth.parent);
  absl::StatusOr<Fate> fate = parent ? GrowBelow(*parent, growth) : Fate::kEvaporated;
  if (fate.ok()) last_id_ = growth.id;
  return fate;
}

absl::Status Sketch::Check(const Growth& growth, uint32_t seen) const {
  if (growth.id <= last_id_) {
    return InvalidArgument("node ", growth.id, " comes after node ", last_id_,
                           "; ids rise strictly");
  }
  if (growth.id >= kOwnIds) {
    return InvalidArgument("node ", growth.id, " is past the last id, ", kOwnIds - 1,
                           "; open a new session");
  }
  if (growth.parent >= growth.id) {
    return InvalidArgument("node ", growth.id, " has node ", growth.parent,
                           " as its parent, which does not come before it");
  }
  if (growth.doubt > kEdgeDoubtMax) {
    return InvalidArgument("node ", growth.id, " has a doubt of ", growth.doubt,
                           "; that of an edge is at most ", kEdgeDoubtMax);
  }
  if (seen < seen_) {
    return InvalidArgument("node ", growth.id, " was sent after ", seen,
                           " commits were seen, and one before it after ", seen_);
  }
  if (seen > commit_count_) {
    return InvalidArgument("node ", growth.id, " was sent after ", seen,
                           " commits were seen, and there have been ", commit_count_);
  }
  return absl::OkStatus();
}

absl::StatusOr<Sketch::Fate> Sketch::GrowBelow(const Place& parent, const Growth& growth) {
  if (parent.committed && parent.where < root_position()) {
    if (way_[parent.where - way_begin_].token != growth.token) return Fate::kEvaporated;
    return AddName(growth.id, {true, parent.where + 1});
  }
  const NodeId below = parent.committed ? kRoot : parent.where;
  if (const Node* const known = ChildOf(below, growth.token)) {
    return AddName(growth.id, {false, known->id});
  }
  return AddNode(below, growth);
}

absl::StatusOr<Sketch::Fate> Sketch::AddName(NodeId id, const Place& place) {
  // The ids of a whole way, and as many second ids as there are nodes.
  const size_t name_count_max = 2 * (size_t{node_count_max_} + 1);
  if (names_.size() >= name_count_max) {
    return ResourceExhausted("node ", id, " is known already, and a sketch of ", node_count_max_,
                             " nodes has no room for more second ids");
  }
  names_.push_back({id, place});
  return Fate::kKnown;
}

absl::StatusOr<Sketch::Fate> Sketch::AddNode(NodeId parent, const Growth& growth) {
  if (nodes_.size() == node_count_max_) {
    return ResourceExhausted("node ", growth.id, " does not fit into a sketch of ", node_count_max_,
                             " nodes");
  }
  uint32_t depth = 1;
  uint32_t doubt = growth.doubt;
  if (parent != kRoot) {
    const Node& above = nodes_[IndexOf(parent)];
    depth += above.depth;
    doubt += above.doubt;
  }
  nodes_.push_back({growth.id, parent, growth.token, depth, doubt});
  Index(static_cast<uint32_t>(nodes_.size() - 1));
  return Fate::kGrown;
}

// Doubt is for those that guess from far away: it orders what a pass cannot take all of.
std::optional<NodeId> Sketch::GrowOwn(NodeId parent, TokenId token) {
  if (const Node* const known = ChildOf(parent, token)) return known->id;
  const NodeId id = last_own_id_ + 1;
  if (!AddNode(parent, {.id = id, .parent = parent, .token = token, .doubt = 0}).ok()) {
    return std::nullopt;
  }
  last_own_id_ = id;
  return id;
}

void Sketch::DropOwn() {
  while (!nodes_.empty() && nodes_.back().id >= kOwnIds) Prune(nodes_.back().id);
  std::erase_if(names_, [](const Name& name) { return name.id >= kOwnIds; });
  last_own_id_ = kOwnIds - 1;
}

// --- commits ---

void Sketch::Commit(NodeId leaf, TokenId next, std::vector<TokenId>& committed) {
  const std::optional<NodeId> last = Resolve(leaf);
  OUTRIDER_CHECK(last.has_value(), "what is committed goes down to the root or a node");
  ++commit_count_;
  fates_.assign(nodes_.size(), std::nullopt);
  const uint32_t position = root_position();
  const uint32_t depth = *last == kRoot ? 1 : nodes_[IndexOf(*last)].depth + 1;  // of `next`
  for (NodeId id = *last; id != kRoot;) {
    const size_t i = IndexOf(id);
    fates_[i] = Place{true, position + nodes_[i].depth};
    id = nodes_[i].parent;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {  // parents come before their children
    if (!fates_[i]) continue;
    LengthenWay(nodes_[i].token);
    committed.push_back(nodes_[i].token);
  }
  LengthenWay(next);
  committed.push_back(next);

  uint32_t doubt = 0;
  if (const Node* const child = ChildOf(*last, next)) {
    doubt = child->doubt;
    fates_[IndexOf(child->id)] = Place{true, position + depth};
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!fates_[i] && StaysBelow(nodes_[i].parent)) fates_[i] = Place{false, nodes_[i].id};
  }
  Settle(depth, doubt);
}

// Whether what is below this node outlives the commit: it is the new root, or outlives it itself.
bool Sketch::StaysBelow(NodeId parent) const {
  if (parent == kRoot) return false;
  const std::optional<Place>& fate = fates_[IndexOf(parent)];
  return fate && (!fate->committed || fate->where == root_position());
}

void Sketch::Prune(NodeId id) {
  const std::optional<Place> place = Locate(id);
  if (!place || place->committed) return;
  fates_.assign(nodes_.size(), std::nullopt);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.id == place->where) continue;
    if (node.parent == kRoot || fates_[IndexOf(node.parent)]) fates_[i] = Place{false, node.id};
  }
  Settle(0, 0);
}

void Sketch::Reset(uint32_t commit_count) {
  nodes_.clear();
  IndexAll();
  names_.clear();
  way_.clear();
  way_begin_ = 0;
  way_begin_commit_ = commit_count_ = seen_ = commit_count;
  last_id_ = kRoot;
  last_own_id_ = kOwnIds - 1;
}

void Sketch::LengthenWay(TokenId token) {
  if (way_.size() > node_count_max_) ForgetWay(way_begin_ + 1);
  way_.push_back({token, commit_count_});
}

// Up to the token at `position`, which stays as the place that growth is below.
void Sketch::ForgetWay(uint32_t position) {
  if (position <= way_begin_) return;
  const auto count = static_cast<ptrdiff_t>(position - way_begin_);
  way_begin_commit_ = way_[static_cast<size_t>(count - 1)].commit;
  way_.erase(way_.begin(), way_.begin() + count);
  way_begin_ = position;
  std::erase_if(names_, [&](const Name& name) {
    return name.place.committed && name.place.where < way_begin_;
  });
}

// Everything becomes what its fate says; the root has gone down by `depth`, and its doubt with it.
void Sketch::Settle(uint32_t depth, uint32_t doubt) {
  SettleNames();
  for (Node& node : nodes_) {
    if (node.parent == kRoot) continue;
    const std::optional<Place>& parent = fates_[IndexOf(node.parent)];
    if (parent && parent->committed) node.parent = kRoot;
  }
  size_t kept = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!fates_[i] || fates_[i]->committed) continue;
    Node& node = nodes_[kept++] = nodes_[i];
    node.depth -= depth;
    node.doubt -= doubt;
  }
  nodes_.resize(kept);
  IndexAll();
}

// Second ids go with their nodes; of nodes that are committed, all ids lead to the way.
void Sketch::SettleNames() {
  size_t kept = 0;
  for (Name name : names_) {
    if (!name.place.committed) {
      const std::optional<Place>& fate = fates_[IndexOf(name.place.where)];
      if (!fate) continue;
      name.place = *fate;
    }
    names_[kept++] = name;
  }
  names_.resize(kept);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (fates_[i] && fates_[i]->committed) names_.push_back({nodes_[i].id, *fates_[i]});
  }
  std::ranges::sort(names_, {}, &Name::id);
}

// --- what passes and others see ---

void Sketch::Take(uint32_t count, Taken& taken) const {
  std::vector<NodeId>& ids = taken.ids;
  ids.reserve(node_count_max_);
  taken.nodes.reserve(node_count_max_);
  ids.clear();
  for (const Node& node : nodes_) ids.push_back(node.id);
  if (count < ids.size()) {
    const auto doubt_and_id = [&](NodeId id) { return std::pair(nodes_[IndexOf(id)].doubt, id); };
    std::ranges::nth_element(ids, ids.begin() + count, {}, doubt_and_id);
    ids.resize(count);
    std::ranges::sort(ids);
  }
  taken.nodes.clear();
  for (const NodeId id : ids) {
    const Node& node = nodes_[IndexOf(id)];
    const auto parent = std::ranges::lower_bound(ids, node.parent) - ids.begin();
    taken.nodes.push_back(
        {node.token, node.parent == kRoot ? DraftedNode::kRoot : static_cast<uint32_t>(parent)});
  }
}

void Sketch::TokensBeside(const Taken& taken, std::vector<TokenId>& tokens) const {
  const auto is_taken = [&](NodeId id) { return std::ranges::binary_search(taken.ids, id); };
  beside_.clear();
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const NodeId parent = nodes_[i].parent;
    if (!is_taken(nodes_[i].id) && (parent == kRoot || is_taken(parent))) beside_.push_back(i);
  }
  std::ranges::sort(beside_, {}, [&](uint32_t i) { return std::pair(nodes_[i].doubt, i); });
  tokens.clear();
  for (const uint32_t i : beside_) {
    const TokenId token = nodes_[i].token;
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  }
}

const Sketch::Node* Sketch::Find(NodeId id) const {
  const std::optional<Place> place = Locate(id);
  return place && !place->committed ? &nodes_[IndexOf(place->where)] : nullptr;
}

const Sketch::Node* Sketch::Child(NodeId parent, TokenId token) const {
  const std::optional<NodeId> below = Resolve(parent);
  return below ? ChildOf(*below, token) : nullptr;
}

void Sketch::PathTo(NodeId node, std::vector<TokenId>& path) const {
  const std::optional<NodeId> last = Resolve(node);
  OUTRIDER_CHECK(last.has_value(), "a path leads to the root or a node");
  path.clear();
  for (NodeId id = *last; id != kRoot;) {
    const Node& above = nodes_[IndexOf(id)];
    path.push_back(above.token);
    id = above.parent;
  }
  std::ranges::reverse(path);
}

// --- looking up ---

std::optional<Sketch::Place> Sketch::Locate(NodeId id) const {
  if (by_id_[SlotOf(id)] != kNoNode) return Place{false, id};
  const auto name = std::ranges::lower_bound(names_, id, {}, &Name::id);
  if (name == names_.end() || name->id != id) return std::nullopt;
  return name->place;
}

// After the last token that was committed by then.
std::optional<Sketch::Place> Sketch::RootAsOf(uint32_t seen) const {
  const auto after = std::ranges::upper_bound(way_, seen, {}, &WayToken::commit);
  if (after == way_.begin() && way_begin_commit_ != seen) return std::nullopt;
  return Place{true, way_begin_ + static_cast<uint32_t>(after - way_.begin())};
}

std::optional<NodeId> Sketch::Resolve(NodeId id) const {
  if (id == kRoot) return kRoot;
  const std::optional<Place> place = Locate(id);
  if (!place) return std::nullopt;
  if (!place->committed) return place->where;
  if (place->where != root_position()) return std::nullopt;
  return kRoot;
}

const Sketch::Node* Sketch::ChildOf(NodeId parent, TokenId token) const {
  const uint32_t child = by_parent_[SlotOf(parent, token)];
  return child == kNoNode ? nullptr : &nodes_[child];
}

size_t Sketch::IndexOf(NodeId node) const {
  const uint32_t index = by_id_[SlotOf(node)];
  OUTRIDER_CHECK(index != kNoNode, "what leads to a node leaves with it");
  return index;
}

// Where it is, or would be.
size_t Sketch::SlotOf(NodeId id) const {
  const size_t last = by_id_.size() - 1;
  size_t slot = Mix(id) & last;
  while (by_id_[slot] != kNoNode && nodes_[by_id_[slot]].id != id) slot = (slot + 1) & last;
  return slot;
}

size_t Sketch::SlotOf(NodeId parent, TokenId token) const {
  const size_t last = by_parent_.size() - 1;
  size_t slot = Mix(uint64_t{parent} << 32 | static_cast<uint32_t>(token)) & last;
  const auto is_other = [&](const Node& node) {
    return node.parent != parent || node.token != token;
  };
  while (by_parent_[slot] != kNoNode && is_other(nodes_[by_parent_[slot]]))
    slot = (slot + 1) & last;
  return slot;
}

void Sketch::Index(uint32_t node) {
  by_id_[SlotOf(nodes_[node].id)] = node;
  by_parent_[SlotOf(nodes_[node].parent, nodes_[node].token)] = node;
}

void Sketch::IndexAll() {
  std::ranges::fill(by_id_, kNoNode);
  std::ranges::fill(by_parent_, kNoNode);
  for (uint32_t i = 0; i < nodes_.size(); ++i) Index(i);
}

}  // namespace outrider
