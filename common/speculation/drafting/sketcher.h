// The device's side of a sketch: keeps the draft that a policy looks at, and carries out what it
// decides. A session with a server and a loop around a target of one's own are both built on it.
//
//   Drafted(), Hinted(), Decided(), Restart()      something has happened
//   CancelMoot()                                   batches in flight whose nodes have all gone
//   NextBatch()                                    for the drafter, in flight until Drafted()
//   NextGrowth()                                   for the target to be shown
//
// After each event the caller asks for all three, in this order: what is sent may change what is
// worth drafting.
//
// Nobody waits for nobody: when nothing is under way and nothing is worth drafting, growth says `go`
// in the same event, even if it has no node. A target that waits for growth begins its pass then; one
// that goes on alone, and may wait a moment for growth that is due, need not.
//
// Where draft and target take turns on one processor, whoever drafts beside a pass slows it by more
// than it gains. There a batch is asked for only while the policy would hold a pass back for it; and no pass
// begins that growth has not said `go` to, not even where something has survived the verdict: a moment
// makes a tree of a node.
//
// Which nodes the running pass has taken, a device far from its target can only guess: the best of
// those that had been under way for a round trip when the verdict before it came, or if there were
// none, of the first to come.
//
// Memory:  taken when it is made, for the nodes of the sketch and the candidates.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/drafter.h"
#include "common/speculation/drafting/hint_trust.h"
#include "common/speculation/drafting/outcome_posterior.h"
#include "common/speculation/policies/tree_policy.h"
#include "common/tokens/sketch.h"

namespace outrider {

class Sketcher {
 public:
  struct Options {
    uint32_t node_count_max = 256;
    uint32_t candidate_count_max = 1024;  // above it the less probable half goes
    uint32_t pass_node_count_max = 16;
    uint32_t batch_node_count_max = 8;
    uint32_t child_count_max = 5;
    uint32_t batch_count_max = 1;                 // in flight at a time
    uint32_t growth_node_count_max = UINT32_MAX;  // shown at a time: the rest comes right after
    // Draft and target share a processor, and one that waits for growth takes turns with it: nothing
    // is drafted while a pass runs, and no pass is begun while something is drafted.
    bool takes_turns = false;
    // The draft computes while the target does not: a batch that is under way during a pass waits for most of it, and
    // how long it took is no price of one. A pass begins when that is said, as with turns: it takes so long that what
    // a verdict has left over is no growth to begin one with.
    bool drafts_in_waits = false;
    HintBelief hint_belief = HintBelief::kNewest;
  };

  struct ToDraft {
    NodeId node;
    uint32_t child_count;
  };

  struct Growth {
    std::span<const Sketch::Node> nodes;  // ids ascending; perhaps none
    bool go;                              // nothing more will come before the next verdict
  };

  // `policy` and `costs` must outlive it.
  Sketcher(const Options& options, TreePolicy& policy, const CostModel& costs);

  // An epoch begins after an edit, and nothing drafted survives; batches in flight are moot.
  void Restart(uint32_t commit_count);

  // An epoch begins at the same root, for a target that knows nothing of what was drafted: it
  // survives under new ids, to be sent anew.
  void Renew(uint32_t commit_count);

  // From now on: it takes over what is there.
  void SetPolicy(TreePolicy& policy) { policy_ = &policy; }
  void SetPassNodeCountMax(uint32_t count) { options_.pass_node_count_max = count; }
  // Whether a target whose root has no child waits for growth. One that does not writes on alone. A
  // target that is told to wait may have begun a pass, or may not: it is sent what there is.
  void SetTargetWaits(bool waits) {
    if (waits == target_waits_) return;
    target_waits_ = waits;
    pass_running_ = !waits;
  }

  // children[i], the most probable first, are those of the batch's node i. An answer to a batch that
  // is not in flight is passed over.
  void Drafted(uint64_t batch, std::span<const std::span<const Proposal>> children,
               MonotonicTime now);

  // `leaf` is kRoot or a node that the target was shown; a hint of one that has gone is no news.
  void Hinted(const OutcomePosterior::Hint& told, MonotonicTime now);

  // What a verdict tells of its pass, before anything is learned from it: the last node that the target had when
  // it began, and how many it took. Until then both are guessed from times, and a target that has
  // waited for growth has taken more.
  void PassWas(NodeId last, uint32_t node_count);

  // A verdict. `leaf` is kRoot or a node of the sketch. Appends what is committed to `committed`.
  void Decided(NodeId leaf, TokenId next, MonotonicTime now, std::vector<TokenId>& committed) {
    Learn(leaf, next, now);
    MoveRoot(leaf, next, now, committed);
  }
  // The same in two steps, for who chooses between them what goes on: the policy learns from it,
  // and the root moves.
  void Learn(NodeId leaf, TokenId next, MonotonicTime now);
  void MoveRoot(NodeId leaf, TokenId next, MonotonicTime now, std::vector<TokenId>& committed);

  // The draft as policies see it. Valid until the next event.
  DraftView View(MonotonicTime now) const;

  // Empty: there are batch_count_max in flight, or nothing is worth drafting. Valid until the next
  // call.
  std::span<const ToDraft> NextBatch(MonotonicTime now);
  // The number of the batch that it gave last. They count from 1.
  uint64_t newest_batch() const { return newest_batch_; }
  // A batch in flight whose nodes have all evaporated, which is in flight no more; nullopt: there is
  // none.
  std::optional<uint64_t> CancelMoot();

  // nullopt: nothing to show now. What is returned counts as sent. Valid until the next call.
  std::optional<Growth> NextGrowth(MonotonicTime now);

  const Sketch& sketch() const { return sketch_; }
  std::span<const DraftNode> nodes() const { return nodes_; }
  std::span<const DraftCandidate> candidates() const { return candidates_; }

 private:
  static constexpr uint32_t kGone = UINT32_MAX;  // as an index
  static constexpr NodeId kNobody = UINT32_MAX;  // as a node

  struct Batch {
    uint64_t number = 0;         // 0: not in flight
    bool is_of_a_past = false;   // asked for before a Restart()
    std::vector<ToDraft> nodes;  // kNobody in place of those that have evaporated
  };

  bool drafting() const;
  bool takes_turns() const { return options_.takes_turns && target_waits_; }
  bool begins_when_told() const {
    return takes_turns() || (options_.drafts_in_waits && target_waits_);
  }
  bool IsMoot(const Batch& batch) const;
  uint32_t IndexOf(NodeId id) const;
  double PriorOf(uint32_t leaf, TokenId next) const;
  bool HasChild(uint32_t parent, TokenId token) const;
  void AddChildren(uint32_t parent, std::span<const Proposal> children, bool may_be_known);
  void Propose(const DraftCandidate& candidate, bool may_be_known);
  bool MergeInto(const DraftCandidate& candidate);
  void DropImprobable();
  void DropCandidates(std::span<const uint32_t> dropped);
  void NameHinted(const OutcomePosterior::Hint& hint, double rank);
  void JoinChosen(MonotonicTime now);
  void Join(const DraftCandidate& candidate);
  void Grow(const DraftNode& node);
  void Reroot(NodeId leaf, TokenId next, std::vector<TokenId>& committed);
  void GuessPass(MonotonicTime now);
  void TakeSentBy(MonotonicTime deadline);
  void Take(uint32_t node_count);
  bool IsWorthItsTurn(MonotonicTime now);
  bool IsSilent(Sending sending) const;
  std::optional<bool> GoesNow(MonotonicTime now);

  Options options_;
  TreePolicy* policy_;
  const CostModel& costs_;
  bool target_waits_ = true;

  Sketch sketch_;
  std::vector<DraftNode> nodes_;  // the root, then as in sketch_
  std::vector<DraftCandidate> candidates_;
  OutcomePosterior posterior_;
  HintTrust trust_;
  bool pass_running_ = false;
  bool said_nothing_comes_ = false;  // below this root
  std::optional<bool> rest_goes_;    // of growth that was cut: what was said of all of it
  MonotonicTime pass_begin_ = {};

  std::vector<Batch> batches_;  // batch_count_max of them
  uint64_t newest_batch_ = 0;

  // Scratch.
  std::vector<uint32_t> chosen_;
  std::vector<Expansion> expansions_;
  std::vector<uint32_t> moved_to_;  // by old index, what a verdict makes of the nodes
  std::vector<DraftNode> survivors_;
  std::vector<uint32_t> order_;
};

}  // namespace outrider
