// Under which ids the other side knows the nodes it was sent.
//
// On the wire ids rise without gaps from where an epoch begins; in the sketch they rise for good,
// and what evaporates before it is sent leaves a gap. Both rise with the order in which nodes are
// sent, so a table of pairs is sorted by either.
//
// Memory: a pair for every node of the sketch and, until the next Retain(), for those that went with
//         the newest verdict.
#pragma once

#include <optional>
#include <vector>

#include "common/tokens/sketch.h"

namespace outrider {

class WireIds {
 public:
  explicit WireIds(uint32_t node_count_max) { pairs_.reserve(size_t{2} * node_count_max); }

  // An epoch begins.
  void Clear();

  // `node` is sent, as the id that is returned.
  NodeId Add(NodeId node);
  NodeId last() const { return last_; }
  size_t size() const { return pairs_.size(); }

  // kRoot is kRoot on either side. nullopt: not sent in this epoch, or let go.
  std::optional<NodeId> OnWire(NodeId node) const;
  std::optional<NodeId> InSketch(NodeId wire) const;
  // The last node that was sent with such an id or a lower one; kRoot: there is none any more.
  NodeId UpTo(NodeId wire) const;

  // Lets go of what is no node of the sketch any more.
  void Retain(const Sketch& sketch);

 private:
  struct Pair {
    NodeId node;
    NodeId wire;
  };

  std::vector<Pair> pairs_;
  NodeId last_ = Sketch::kRoot;
};

}  // namespace outrider
