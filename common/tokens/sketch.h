// The sketch: what is drafted below the root, as a bounded trie. Device and verifier each hold a
// copy.
//
//   Sketch sketch(256);
//   sketch.Grow({.id = 1, .parent = Sketch::kRoot, .token = the, .doubt = 1}, seen);
//   sketch.Grow({.id = 2, .parent = 1, .token = cat, .doubt = 3}, seen);
//   sketch.Take(16, taken);                          // the best nodes, for a pass
//   sketch.Commit(taken.IdOf(outcome.node), outcome.next, committed);
//
// A node has an id, which its device gives it: ids rise strictly, from 1; the root is 0, whichever
// token that is. Both copies see the same growth and the same commits, each in its own order, but
// not in the same order: growth that was sent before its sender knew of a commit arrives after it.
// So a copy remembers the way that the root has come since the last commit that the sender is known
// to have seen (`seen` counts commits), and growth below a token of that way is walked down it:
//
//      sender's view              here, after "cat sat" was committed
//   root - the - cat - on         the - cat - sat = root
//                \-- sat - on      cat: is known as a token of the way; "on" below it evaporates;
//                                  sat: is the root; "on" below it is a child of the root
//
// Late growth is never an error. A token that its parent already has below it is the same node
// under a second id, with the doubt it had. So what a copy holds is a function of the growth and
// the commits it has been told of, not of their order: two copies that know the same are the same.
//
// A node's doubt is the sum of -2 log2(confidence) over the edges from the root down to it, each
// rounded: whole numbers, so that both copies order nodes alike. A node is never less doubtful than
// its parent, so the best nodes include their ancestors.
//
// A verifier's copy may have nodes of its own making, for a device that leaves drafting to it. Their
// ids are above all that devices give, so they are in nobody's way when the device grows again.
//
// Not here: whether tokens are the vocabulary's.
// Cost:    growing a node, or finding a child, looks at a few others; a commit or prune at each a
//          few times.
// Memory:  taken when it is made, for `node_count_max` nodes, as many second ids, a way of
//          node_count_max + 1 tokens, and indices of four to eight words a node.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/outcome.h"

namespace outrider {

using NodeId = uint32_t;

class Sketch {
 public:
  static constexpr NodeId kRoot = 0;
  static constexpr uint32_t kEdgeDoubtMax = 15;
  // Devices give ids below it.
  static constexpr NodeId kOwnIds = NodeId{1} << 31;

  struct Growth {
    NodeId id;
    NodeId parent;
    TokenId token;
    uint32_t doubt;  // of this edge: confidence is 2^(-doubt / 2)
  };

  struct Node {
    NodeId id;
    NodeId parent;  // kRoot, or the id of an earlier node
    TokenId token;
    uint32_t depth;  // 1: a child of the root
    uint32_t doubt;  // the sum from the root down

    bool operator==(const Node&) const = default;
  };

  enum class Fate {
    kGrown,       // a node of its own
    kKnown,       // a second id of a node, or an id of a token that is committed
    kEvaporated,  // below what is gone
  };

  // What a pass is given, parents first. nodes[i] is the node ids[i].
  struct Taken {
    std::vector<DraftedNode> nodes;
    std::vector<NodeId> ids;

    // Of an Outcome's node.
    NodeId IdOf(uint32_t node) const { return node == DraftedNode::kRoot ? kRoot : ids[node]; }
  };

  explicit Sketch(uint32_t node_count_max);

  // Adds a node that was sent when its sender had seen `seen` commits. InvalidArgument when its id
  // is not above all before or its parent's not below its own, `seen` falls back or is ahead of the
  // commits here, or its doubt cannot be an edge's; ResourceExhausted when there are
  // node_count_max nodes, or as many second ids. The id is still free then.
  absl::StatusOr<Fate> Grow(const Growth& growth, uint32_t seen);

  // Adds a node of this copy's own making below kRoot or a node, or finds the one there is. The root
  // is the one of now, whatever the device has seen. None: there are node_count_max nodes. Until
  // DropOwn() nothing is grown from elsewhere.
  std::optional<NodeId> GrowOwn(NodeId parent, TokenId token);
  void DropOwn();

  // The way down to `leaf`, which is kRoot or a node, is committed, then `next`, which is the root
  // now: what is below it stays, all else evaporates. Appends the tokens that were committed to
  // `committed`.
  //
  // A way that gets longer than it may forgets its oldest tokens, and growth below those evaporates
  // here although its sender holds on to it. So nobody commits more than that unseen: see
  // way_length().
  void Commit(NodeId leaf, TokenId next, std::vector<TokenId>& committed);

  // Drops a node and all below it; ids that are no nodes any more may be named. Not for a device's
  // own copy while a pass may have taken the node: its verdict may name it.
  void Prune(NodeId node);

  // Tokens were committed or forgotten by other means, or an epoch begins: nothing drafted
  // survives. Ids begin anew, and commits are counted from `commit_count`.
  void Reset(uint32_t commit_count);

  // The `count` least doubtful nodes, of equal ones those with the lower ids.
  void Take(uint32_t count, Taken& taken) const;
  // What is drafted just outside what was taken: the tokens of nodes whose parents are the root or
  // were taken and who were not, the least doubtful first, each once, in place of what `tokens` held.
  // An outcome's next token that the sketch knows is among them.
  void TokensBeside(const Taken& taken, std::vector<TokenId>& tokens) const;

  // Ids ascending, so parents first. Valid until the next change.
  std::span<const Node> nodes() const { return nodes_; }
  // By any of its ids. Null: it is gone, or is no node any more.
  const Node* Find(NodeId id) const;
  // `parent` is kRoot, or any id of the root or a node. Null: it has no such child, or is gone.
  const Node* Child(NodeId parent, TokenId token) const;
  // The tokens from the root's child down to `node` (kRoot: none), in place of what `path` held.
  void PathTo(NodeId node, std::vector<TokenId>& path) const;

  uint32_t node_count_max() const { return node_count_max_; }
  uint32_t commit_count() const { return commit_count_; }  // commits so far
  NodeId last_id() const { return last_id_; }              // the highest given, of whatever fate
  // Committed tokens that the sender has not been known to see; at most node_count_max() + 1.
  uint32_t way_length() const { return static_cast<uint32_t>(way_.size()); }

 private:
  // A token of the way. Positions count committed tokens: 0 is the root of the epoch's beginning.
  struct WayToken {
    TokenId token;
    uint32_t commit;  // by which it was committed
  };

  static constexpr uint32_t kNoNode = UINT32_MAX;

  // Where an id leads: to a node, or to a position of the way (or just before its first token).
  struct Place {
    bool committed;
    uint32_t where;  // a position, or the NodeId under which the node is known
  };

  struct Name {
    NodeId id;
    Place place;
  };

  absl::Status Check(const Growth& growth, uint32_t seen) const;
  std::optional<Place> Locate(NodeId id) const;        // none: evaporated
  std::optional<Place> RootAsOf(uint32_t seen) const;  // none: forgotten
  std::optional<NodeId> Resolve(NodeId id) const;      // kRoot, or the node it names; none: neither
  const Node* ChildOf(NodeId parent, TokenId token) const;
  size_t IndexOf(NodeId node) const;
  size_t SlotOf(NodeId id) const;
  size_t SlotOf(NodeId parent, TokenId token) const;
  void Index(uint32_t node);
  void IndexAll();

  absl::StatusOr<Fate> GrowBelow(const Place& parent, const Growth& growth);
  absl::StatusOr<Fate> AddName(NodeId id, const Place& place);
  absl::StatusOr<Fate> AddNode(NodeId parent, const Growth& growth);

  bool StaysBelow(NodeId parent) const;
  void LengthenWay(TokenId token);
  void ForgetWay(uint32_t position);
  void Settle(uint32_t depth, uint32_t doubt);
  void SettleNames();

  uint32_t root_position() const { return way_begin_ + way_length(); }

  const uint32_t node_count_max_;
  std::vector<Node> nodes_;
  // The nodes by id, and by parent and token: hash tables, half full at the most, of indices. A
  // node is in the slot that its key hashes to, or in one of those after it up to the first that is
  // kNoNode.
  std::vector<uint32_t> by_id_;
  std::vector<uint32_t> by_parent_;
  std::vector<Name> names_;    // ids ascending; second ids of nodes, and ids of committed tokens
  std::vector<WayToken> way_;  // at positions way_begin_ + 1 and on
  uint32_t way_begin_ = 0;
  uint32_t way_begin_commit_ = 0;  // by which the token at way_begin_ was committed
  uint32_t commit_count_ = 0;
  uint32_t seen_ = 0;
  NodeId last_id_ = kRoot;
  NodeId last_own_id_ = kOwnIds - 1;
  // What a commit or prune makes of the nodes, by index: none of those that evaporate.
  std::vector<std::optional<Place>> fates_;
  mutable std::vector<uint32_t> beside_;  // scratch: indices of nodes
};

}  // namespace outrider
