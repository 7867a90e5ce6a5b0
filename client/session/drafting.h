// What a session drafts: the sketch, what of it the verifier was sent and under which ids, and what
// all of it takes of time.
//
//   CancelMoot(), NextBatch() --> for the drafter;  Drafted() <-- what it proposes
//   NextGrowth(), WriteGrowth() --> for the verifier
//   Hinted(), Decided() <-- what the verifier says of it
//
// The drafter is kept busy: what it proposes joins the sketch and goes up at once, verdict or no
// verdict, link or no link. Ids on the wire are of an epoch, and begin anew with it; the sketch
// outlives it when the tokens are the same.
//
// Memory:  taken when it is made, for the nodes of the sketch.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/session/growth_message.h"
#include "client/session/measurements.h"
#include "client/session/wire_ids.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/drafter.h"
#include "common/speculation/drafting/sketcher.h"

#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Drafting {
 public:
  // For the drafter, in its words. Valid until the next event, together with all others of this one.
  struct Batch {
    uint64_t number;
    std::span<const DraftedNode> nodes;
    std::span<const Drafter::Context> contexts;
  };

  // `controller` and `costs` must outlive it.
  Drafting(const Sketcher::Options& options, bool target_waits, Controller& controller,
           CostModel& costs);

  // --- replies and epochs ---

  // Nothing drafted survives.
  void BeginReply();
  // An epoch at the same root, for a verifier that answers now what it was asked then.
  void Attached(MonotonicTime asked_at, MonotonicTime now);
  // An edit has begun an epoch: what the verifier was sent it knows no more.
  void ForgetSent();
  // What the verifier has granted of what was asked for.
  void Limit(const v1::Opened& opened);
  void SetTargetWaits(bool waits);
  // The verifier is to take no more of them in a pass than this.
  void SetPassNodes(uint32_t count);

  // --- the drafter ---

  // A batch in flight that nobody waits for any more; nullopt: there is none. An answer that comes
  // all the same is passed over.
  std::optional<uint64_t> CancelMoot();
  // nullopt: it has enough to do, or nothing is worth drafting.
  std::optional<Batch> NextBatch(MonotonicTime now);
  // An answer to a batch. Returns what the user is to be told: an error, once.
  absl::Status Drafted(uint64_t batch, std::span<const std::span<const Proposal>> children,
                       const absl::Status& status, MonotonicTime now);

  // --- the verifier ---

  // What it is to be shown now. Valid until the next event.
  std::optional<Sketcher::Growth> NextGrowth(MonotonicTime now) {
    return sketcher_->NextGrowth(now);
  }
  void WriteGrowth(const Sketcher::Growth& growth, MonotonicTime now, v1::Grow& grow);

  // The node that was sent under this id, if it is still there; the root's is 0 on either side.
  std::optional<NodeId> Find(NodeId wire) const;
  void PathTo(NodeId leaf, std::vector<TokenId>& tokens) const {
    sketcher_->sketch().PathTo(leaf, tokens);
  }
  // Whether something is drafted below the root that (leaf, next) would be.
  bool HasGrownBelow(NodeId leaf, TokenId next) const;

  void Hinted(const OutcomePosterior::Hint& hint, MonotonicTime now) {
    sketcher_->Hinted(hint, now);
  }
  // A verdict commits so many tokens, and says what it took.
  void Measure(const v1::Verdict& verdict, size_t token_count, MonotonicTime now) {
    times_.Decided(verdict, token_count, now);
  }
  // It is of this outcome: the policy learns from it, the controller chooses what goes on, and the root moves.
  void Decided(const v1::Verdict& verdict, NodeId leaf, TokenId next, MonotonicTime now);
  // The root moves down these tokens, which need not have been drafted here; the same.
  void MoveRoot(std::span<const TokenId> tokens, MonotonicTime now);

  const Measurements::Totals& times() const { return times_.totals(); }

  void CheckInvariants() const;

 private:
  void MakeSketcher(const Sketcher::Options& options);
  void Consult(MonotonicTime now);
  void Move(NodeId leaf, TokenId next, MonotonicTime now);
  bool IsBesidePass(MonotonicTime now) const { return sketcher_->View(now).pass_running; }

  const Sketcher::Options options_;
  Controller& controller_;
  CostModel& costs_;
  bool target_waits_;
  uint32_t granted_pass_nodes_;
  std::optional<Sketcher> sketcher_;
  WireIds wire_ids_;
  GrowthWriter growth_writer_;
  Measurements times_;

  struct Flight {
    uint64_t batch;
    size_t node_count;
    MonotonicTime asked_at;
    bool beside_pass;  // when it was asked for
  };
  std::vector<Flight> flights_;      // oldest first: batches are answered in order
  std::vector<uint64_t> abandoned_;  // that a sketcher before this one has asked for
  uint64_t batches_before_ = 0;      // of sketchers before this one
  MonotonicTime answered_at_ = {};
  std::string error_;  // the drafter's newest, told once

  // Working memory.
  std::vector<TokenId> committed_;
  struct Words {
    std::vector<DraftedNode> nodes;
    std::vector<Drafter::Context> contexts;
  };
  std::vector<Words> words_;  // of as many batches as may be asked for in an event
  std::vector<std::span<const Proposal>> no_children_;
};

}  // namespace outrider
