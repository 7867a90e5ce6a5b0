// The device's side of a sketch: keeps the draft that a policy looks at, and carries out what it
// decides.
//
// Events come in, and afterwards the caller asks what there is to do:
//
//   Drafted()  the drafter's children of one node of the batch      -> NextBatch(), NextGrowth()
//   Hinted()   an outcome guessed                                   -> the same
//   Decided()  a verdict: the root moves                            -> the same
//
// Both the session with a server and the loop around a local target are built on it.
//
// Memory:  taken when it is made, for the sketch and as many candidates besides.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/speculation/cost_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/outcome_posterior.h"
#include "common/speculation/tree_policy.h"
#include "common/tokens/sketch.h"

namespace outrider {

class Sketcher {
 public:
  struct Options {
    uint32_t node_count_max = 256;
    uint32_t candidate_count_max = 2048;
    uint32_t pass_node_count_max = 16;
    uint32_t batch_node_count_max = 8;
    uint32_t child_count_max = 4;
  };

  struct ToDraft {
    NodeId node;
    uint32_t child_count;
  };

  // Nodes that the target is to be shown: a run of those in sketch().nodes(), perhaps empty.
  struct Growth {
    std::span<const Sketch::Node> nodes;
    bool go;
  };

  // `policy` and `costs` must outlive it.
  Sketcher(const Options& options, TreePolicy& policy, const CostModel& costs);

  // A new epoch, or the committed tokens have changed otherwise: nothing drafted survives. What the
  // drafter still has under way is of the past.
  void Restart(uint32_t commit_count, MonotonicTime now);

  // From now on; between verdicts.
  void SetPolicy(TreePolicy& policy);
  void SetPassNodes(uint32_t count_max) { options_.pass_node_count_max = count_max; }

  // The drafter has run all of the batch. children[i], most probable first, are those of batch[i];
  // nodes that have evaporated meanwhile are passed over.
  void Drafted(std::span<const std::span<const Proposal>> children, MonotonicTime now);

  void Hinted(const OutcomePosterior::Hint& hint, MonotonicTime now);

  // A verdict. `leaf` is kRoot or a node of the sketch. Appends what is committed to `committed`.
  void Decided(NodeId leaf, TokenId next, MonotonicTime now, std::vector<TokenId>& committed);

  // The pass that runs from now on is over these nodes. For a caller that starts passes itself; of
  // one far away the sketcher makes a guess, from what it sent when and the round trip.
  void PassBegan(std::span<const NodeId> taken, MonotonicTime now);

  // What the drafter is to run now; empty while it is busy, and when nothing is worth it. What is
  // returned is under way from then on. Valid until the next call.
  std::span<const ToDraft> NextBatch(MonotonicTime now);

  // What the target is to be shown now, if anything; it counts as sent from then on. Valid until
  // the next call.
  std::optional<Growth> NextGrowth(MonotonicTime now);

  // When a node was sent that is among the newest few: nullopt, it is none of those.
  std::optional<MonotonicTime> SentAt(NodeId node) const;

  const Sketch& sketch() const { return sketch_; }
  std::span<const DraftNode> nodes() const { return nodes_; }

 private:
  Options options_;
  TreePolicy* policy_;
  const CostModel& costs_;
  Sketch sketch_;
  std::vector<DraftNode> nodes_;
};

}  // namespace outrider
