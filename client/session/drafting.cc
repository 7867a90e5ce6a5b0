#include "client/session/drafting.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

Drafting::Drafting(const Sketcher::Options& options, bool target_waits, Controller& controller,
                   CostModel& costs)
    : options_(options),
      controller_(controller),
      costs_(costs),
      target_waits_(target_waits),
      granted_pass_nodes_(options.pass_node_count_max),
      wire_ids_(options.node_count_max),
      growth_writer_(options.node_count_max),
      times_(costs),
      words_(options.batch_count_max) {
  MakeSketcher(options);
}

void Drafting::MakeSketcher(const Sketcher::Options& options) {
  if (sketcher_) batches_before_ += sketcher_->newest_batch();
  for (const Flight& flight : flights_) abandoned_.push_back(flight.batch);
  flights_.clear();
  sketcher_.emplace(options, *controller_.course().growth, costs_);
  sketcher_->SetTargetWaits(target_waits_);
}

// --- replies and epochs ---

void Drafting::BeginReply() {
  ForgetSent();
  sketcher_->Restart(0);
}

void Drafting::Attached(MonotonicTime asked_at, MonotonicTime now) {
  times_.Attached(asked_at, now);
  ForgetSent();
  sketcher_->Renew(0);
}

void Drafting::ForgetSent() {
  wire_ids_.Clear();
  growth_writer_.BeginEpoch();
  times_.Restart();
}

void Drafting::Limit(const v1::Opened& opened) {
  Sketcher::Options options = options_;
  options.node_count_max = std::min(options.node_count_max, opened.sketch_nodes_max());
  granted_pass_nodes_ = std::min(options.pass_node_count_max, opened.pass_nodes());
  if (options.node_count_max < sketcher_->sketch().node_count_max()) MakeSketcher(options);
  SetPassNodes(granted_pass_nodes_);
}

void Drafting::SetTargetWaits(bool waits) {
  target_waits_ = waits;
  sketcher_->SetTargetWaits(waits);
}

void Drafting::SetPassNodes(uint32_t count) {
  sketcher_->SetPassNodeCountMax(std::min(count, granted_pass_nodes_));
}

// --- the drafter ---

std::optional<uint64_t> Drafting::CancelMoot() {
  if (!abandoned_.empty()) {
    const uint64_t batch = abandoned_.back();
    abandoned_.pop_back();
    return batch;
  }
  const std::optional<uint64_t> batch = sketcher_->CancelMoot();
  if (!batch) return std::nullopt;
  const uint64_t number = batches_before_ + *batch;
  std::erase_if(flights_, [&](const Flight& flight) { return flight.batch == number; });
  return number;
}

std::optional<Drafting::Batch> Drafting::NextBatch(MonotonicTime now) {
  const auto batch = sketcher_->NextBatch(now);
  if (batch.empty()) return std::nullopt;
  const auto drafted = sketcher_->nodes();
  auto& [nodes, contexts] = words_[sketcher_->newest_batch() % words_.size()];
  nodes.clear();
  for (const DraftNode& node : drafted.subspan(1)) {
    nodes.push_back({node.token, node.parent == 0 ? DraftedNode::kRoot : node.parent - 1});
  }
  contexts.clear();
  for (const Sketcher::ToDraft& asked : batch) {
    const auto at = std::ranges::lower_bound(drafted, asked.node, {}, &DraftNode::id);
    const auto index = static_cast<uint32_t>(at - drafted.begin());
    contexts.push_back({index == 0 ? DraftedNode::kRoot : index - 1, asked.child_count});
  }
  flights_.push_back(
      {batches_before_ + sketcher_->newest_batch(), contexts.size(), now, IsBesidePass(now)});
  return Batch{flights_.back().batch, nodes, contexts};
}

absl::Status Drafting::Drafted(uint64_t batch, std::span<const std::span<const Proposal>> children,
                               const absl::Status& status, MonotonicTime now) {
  // The drafter is at one batch after the other, at those that were cancelled as well.
  const MonotonicTime free_at = std::exchange(answered_at_, now);
  const auto flight = std::ranges::find(flights_, batch, &Flight::batch);
  if (flight == flights_.end()) return absl::OkStatus();
  const Flight answered = *flight;
  flights_.erase(flight);
  if (status.ok()) {
    const bool has_waited = options_.drafts_in_waits && (answered.beside_pass || IsBesidePass(now));
    times_.Drafted(answered.node_count, std::max(answered.asked_at, free_at), now, has_waited);
  }
  no_children_.assign(answered.node_count, {});
  sketcher_->Drafted(batch - batches_before_, status.ok() ? children : no_children_, now);
  if (status.ok() || Message(status) == error_) return absl::OkStatus();
  error_ = Message(status);
  return status;
}

// --- the verifier ---

void Drafting::WriteGrowth(const Sketcher::Growth& growth, MonotonicTime now, v1::Grow& grow) {
  grow.set_go(growth.go);
  growth_writer_.Write(growth.nodes, sketcher_->sketch(), wire_ids_, grow);
  if (!growth.nodes.empty()) times_.Sent(wire_ids_.last(), now);
}

std::optional<NodeId> Drafting::Find(NodeId wire) const {
  const std::optional<NodeId> node = wire_ids_.InSketch(wire);
  if (!node || *node == Sketch::kRoot) return node;
  return sketcher_->sketch().Find(*node) != nullptr ? node : std::nullopt;
}

bool Drafting::HasGrownBelow(NodeId leaf, TokenId next) const {
  const Sketch::Node* const root = sketcher_->sketch().Child(leaf, next);
  return root != nullptr && std::ranges::any_of(sketcher_->sketch().nodes(), [&](const auto& node) {
           return node.parent == root->id;
         });
}

void Drafting::Consult(MonotonicTime now) {
  controller_.Decided(sketcher_->View(now));
  sketcher_->SetPolicy(*controller_.course().growth);
}

void Drafting::Move(NodeId leaf, TokenId next, MonotonicTime now) {
  committed_.clear();
  sketcher_->MoveRoot(leaf, next, now, committed_);
}

void Drafting::Decided(const v1::Verdict& verdict, NodeId leaf, TokenId next, MonotonicTime now) {
  sketcher_->PassWas(wire_ids_.UpTo(verdict.seen()), verdict.nodes());
  sketcher_->Learn(leaf, next, now);
  Consult(now);
  Move(leaf, next, now);
  wire_ids_.Retain(sketcher_->sketch());
}

// In as few steps as there are verdicts that could have told of them.
void Drafting::MoveRoot(std::span<const TokenId> tokens, MonotonicTime now) {
  const Sketch& sketch = sketcher_->sketch();
  while (!tokens.empty()) {
    NodeId leaf = Sketch::kRoot;
    size_t depth = 0;
    while (depth + 1 < tokens.size()) {
      const Sketch::Node* const child = sketch.Child(leaf, tokens[depth]);
      if (child == nullptr) break;
      leaf = child->id;
      ++depth;
    }
    sketcher_->Learn(leaf, tokens[depth], now);
    if (depth + 1 == tokens.size()) Consult(now);
    Move(leaf, tokens[depth], now);
    tokens = tokens.subspan(depth + 1);
  }
  wire_ids_.Retain(sketch);
}

void Drafting::CheckInvariants() const {
  OUTRIDER_CHECK(wire_ids_.size() <= sketcher_->sketch().nodes().size(),
                 "what has an id on the wire is a node");
}

}  // namespace outrider
