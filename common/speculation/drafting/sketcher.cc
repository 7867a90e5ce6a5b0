#include "common/speculation/drafting/sketcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

// Of what a draft leaves to other tokens than those it has named, the one that an exit names.
constexpr double kUnheardOf = 1.0 / 4;

Duration Milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

uint32_t DoubtOf(double confidence) {
  if (!(confidence > 0)) return Sketch::kEdgeDoubtMax;
  const double doubt = std::round(-2 * std::log2(std::min(confidence, 1.0)));
  return static_cast<uint32_t>(std::min<double>(doubt, Sketch::kEdgeDoubtMax));
}

}  // namespace

Sketcher::Sketcher(const Options& options, TreePolicy& policy, const CostModel& costs)
    : options_(options),
      policy_(&policy),
      costs_(costs),
      sketch_(options.node_count_max),
      posterior_(options.hint_belief) {
  nodes_.reserve(size_t{options.node_count_max} + 1);
  survivors_.reserve(size_t{options.node_count_max} + 1);
  moved_to_.reserve(size_t{options.node_count_max} + 1);
  order_.reserve(std::max(options.node_count_max, options.candidate_count_max));
  candidates_.reserve(options.candidate_count_max);
  chosen_.reserve(options.candidate_count_max);
  batches_.resize(options.batch_count_max);
  for (Batch& batch : batches_) batch.nodes.reserve(options.batch_node_count_max);
  expansions_.reserve(options.batch_node_count_max);
  posterior_.Reserve(size_t{options.node_count_max} + 1);
  Restart(0);
}

DraftView Sketcher::View(MonotonicTime now) const {
  return {.nodes = nodes_,
          .candidates = candidates_,
          .costs = costs_,
          .now = now,
          .pass_running = pass_running_,
          .pass_begin = pass_begin_,
          .target_waits = target_waits_,
          .takes_turns = takes_turns(),
          .pass_node_count_max = options_.pass_node_count_max,
          .batch_node_count_max = options_.batch_node_count_max,
          .child_count_max = options_.child_count_max,
          .room = options_.node_count_max - static_cast<uint32_t>(sketch_.nodes().size())};
}

uint32_t Sketcher::IndexOf(NodeId id) const {
  const auto at = std::ranges::lower_bound(nodes_, id, {}, &DraftNode::id);
  return at != nodes_.end() && at->id == id ? static_cast<uint32_t>(at - nodes_.begin()) : kGone;
}

bool Sketcher::HasChild(uint32_t parent, TokenId token) const {
  return sketch_.Child(nodes_[parent].id, token) != nullptr;
}

void Sketcher::Restart(uint32_t commit_count) {
  sketch_.Reset(commit_count);
  posterior_.Forget();
  trust_.Forget();
  nodes_.assign(1, DraftNode());
  candidates_.clear();
  pass_running_ = !target_waits_;
  said_nothing_comes_ = false;
  rest_goes_.reset();
  for (Batch& batch : batches_) batch.is_of_a_past = true;
}

void Sketcher::Renew(uint32_t commit_count) {
  sketch_.Reset(commit_count);
  posterior_.Forget();
  trust_.Forget();
  for (Batch& batch : batches_) {
    for (ToDraft& asked : batch.nodes) {
      const uint32_t index = IndexOf(asked.node);
      asked.node = index == kGone ? kNobody : index;
    }
  }
  for (uint32_t i = 1; i < nodes_.size(); ++i) {  // ids are indices now
    DraftNode& node = nodes_[i];
    node.id = i;
    node.hint = 0;
    node.sent = false;
    node.at_target = node.in_pass = false;
    Grow(node);
  }
  pass_running_ = !target_waits_;
  said_nothing_comes_ = false;
  rest_goes_.reset();
}

// --- growing ---

void Sketcher::Drafted(uint64_t batch, std::span<const std::span<const Proposal>> children,
                       MonotonicTime now) {
  const auto answered = std::ranges::find(batches_, batch, &Batch::number);
  if (batch == 0 || answered == batches_.end()) return;
  OUTRIDER_CHECK(children.size() == answered->nodes.size(), "what was drafted was asked for");
  answered->number = 0;
  if (answered->is_of_a_past) return;
  // What is below a node that has not been drafted, a hint has named.
  const bool may_be_known = std::ranges::any_of(candidates_, [&](const DraftCandidate& candidate) {
    return nodes_[candidate.parent].children != DraftNode::Children::kDrafted;
  });
  for (size_t i = 0; i < children.size(); ++i) {
    const uint32_t parent = IndexOf(answered->nodes[i].node);
    if (parent != kGone) AddChildren(parent, children[i], may_be_known);
  }
  JoinChosen(now);
}

void Sketcher::AddChildren(uint32_t parent, std::span<const Proposal> children, bool may_be_known) {
  nodes_[parent].children = DraftNode::Children::kDrafted;
  for (uint32_t rank = 0; rank < children.size(); ++rank) {
    const Proposal& child = children[rank];
    // A drafter that names a token twice has said the better of it first.
    const auto better = children.first(rank);
    if (std::ranges::find(better, child.token, &Proposal::token) != better.end()) continue;
    Propose({parent, child.token, rank, child.confidence, 0}, may_be_known);
  }
}

void Sketcher::Propose(const DraftCandidate& candidate, bool may_be_known) {
  if (HasChild(candidate.parent, candidate.token)) return;
  if (may_be_known && MergeInto(candidate)) return;
  if (candidates_.size() == options_.candidate_count_max) DropImprobable();
  candidates_.push_back(candidate);
}

// Whether there was the same one.
bool Sketcher::MergeInto(const DraftCandidate& candidate) {
  const auto same = std::ranges::find_if(candidates_, [&](const DraftCandidate& known) {
    return known.parent == candidate.parent && known.token == candidate.token;
  });
  if (same == candidates_.end()) return false;
  same->confidence = std::max(same->confidence, candidate.confidence);
  same->hint = std::max(same->hint, candidate.hint);
  return true;
}

// Half of them at once: to look for the worst each time one comes would be to look at all of them
// each time.
void Sketcher::DropImprobable() {
  const auto path = [&](uint32_t i) {
    return nodes_[candidates_[i].parent].path * candidates_[i].confidence;
  };
  order_.resize(candidates_.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto half = static_cast<ptrdiff_t>(candidates_.size() / 2);
  std::ranges::nth_element(order_, order_.begin() + half, [&](uint32_t a, uint32_t b) {
    return path(a) != path(b) ? path(a) > path(b) : a < b;
  });
  std::sort(order_.begin() + half, order_.end());
  DropCandidates(std::span(order_).subspan(static_cast<size_t>(half)));
}

// Indices ascending.
void Sketcher::DropCandidates(std::span<const uint32_t> dropped) {
  size_t kept = 0;
  for (uint32_t i = 0; i < candidates_.size(); ++i) {
    if (!dropped.empty() && dropped.front() == i) {
      dropped = dropped.subspan(1);
    } else {
      candidates_[kept++] = candidates_[i];
    }
  }
  candidates_.resize(kept);
}

// The chance of the outcome (leaf, next) by the draft alone.
double Sketcher::PriorOf(uint32_t leaf, TokenId next) const {
  double others = 0;
  for (size_t i = leaf + 1; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != leaf) continue;
    if (nodes_[i].token == next) return nodes_[i].path;
    others += nodes_[i].path;
  }
  for (const DraftCandidate& candidate : candidates_) {
    if (candidate.parent == leaf && candidate.token == next) {
      return nodes_[leaf].path * candidate.confidence;
    }
  }
  return kUnheardOf * std::max(0.0, nodes_[leaf].path - others);
}

void Sketcher::Hinted(const OutcomePosterior::Hint& told, MonotonicTime now) {
  const uint32_t leaf = IndexOf(told.leaf);
  if (leaf == kGone) return;
  OutcomePosterior::Hint hint = told;
  hint.probability = trust_.Believed(told, PriorOf(leaf, told.next));
  const double rank = posterior_.Take(hint);
  posterior_.Spread(nodes_);
  NameHinted(hint, rank);
  JoinChosen(now);
}

// Where the draft has no such child, the hint itself proposes it, with the probability that follows
// from its own and the leaf's.
void Sketcher::NameHinted(const OutcomePosterior::Hint& hint, double rank) {
  const uint32_t leaf = IndexOf(hint.leaf);
  if (const Sketch::Node* const child = sketch_.Child(hint.leaf, hint.next)) {
    nodes_[IndexOf(child->id)].hint = rank;
    return;
  }
  const double reach = std::max(nodes_[leaf].reach, hint.probability);
  const double confidence = reach > 0 ? hint.probability / reach : 0;
  Propose({leaf, hint.next, 0, confidence, rank}, /*may_be_known=*/true);
}

void Sketcher::JoinChosen(MonotonicTime now) {
  posterior_.Spread(nodes_);
  if (candidates_.empty()) return;
  chosen_.clear();
  policy_->Join(View(now), chosen_);
  // Parents rise, so that growth is few bytes (growth_bits.h).
  order_.assign(chosen_.begin(), chosen_.end());
  std::ranges::sort(order_, [&](uint32_t a, uint32_t b) {
    const uint32_t x = candidates_[a].parent;
    const uint32_t y = candidates_[b].parent;
    return x != y ? x < y : a < b;
  });
  for (const uint32_t i : order_) Join(candidates_[i]);
  DropCandidates(chosen_);
  posterior_.Spread(nodes_);
}

void Sketcher::Join(const DraftCandidate& candidate) {
  const NodeId id = sketch_.last_id() + 1;
  const uint32_t depth = nodes_[candidate.parent].depth + 1;
  nodes_.push_back({.id = id,
                    .parent = candidate.parent,
                    .token = candidate.token,
                    .depth = depth,
                    .confidence = candidate.confidence,
                    .hint = candidate.hint,
                    .sent = false,
                    .at_target = false,
                    .in_pass = false});
  Grow(nodes_.back());
}

void Sketcher::Grow(const DraftNode& node) {
  const absl::StatusOr<Sketch::Fate> fate =
      sketch_.Grow({node.id, nodes_[node.parent].id, node.token, DoubtOf(node.confidence)},
                   sketch_.commit_count());
  OUTRIDER_CHECK(fate.ok() && *fate == Sketch::Fate::kGrown,
                 "a candidate has a place in the sketch, and policies keep to its room");
}

// --- verdicts ---

void Sketcher::Learn(NodeId leaf, TokenId next, MonotonicTime now) {
  const uint32_t leaf_index = IndexOf(leaf);
  OUTRIDER_CHECK(leaf_index != kGone, "a verdict is about a node that is there");
  policy_->Learn(View(now), {leaf_index, next});
  trust_.Learn(leaf, next);
}

void Sketcher::MoveRoot(NodeId leaf, TokenId next, MonotonicTime now,
                        std::vector<TokenId>& committed) {
  posterior_.Forget();
  said_nothing_comes_ = false;
  rest_goes_.reset();
  Reroot(leaf, next, committed);
  GuessPass(now);
  JoinChosen(now);
}

void Sketcher::Reroot(NodeId leaf, TokenId next, std::vector<TokenId>& committed) {
  const Sketch::Node* const child = sketch_.Child(leaf, next);
  const uint32_t root = child == nullptr ? kGone : IndexOf(child->id);
  sketch_.Commit(leaf, next, committed);

  survivors_.assign(1, DraftNode());
  moved_to_.assign(nodes_.size(), kGone);
  if (root != kGone) {
    survivors_[0].children = nodes_[root].children;
    moved_to_[root] = 0;
  }
  for (const Sketch::Node& node : sketch_.nodes()) {
    const uint32_t old = IndexOf(node.id);
    moved_to_[old] = static_cast<uint32_t>(survivors_.size());
    DraftNode survivor = nodes_[old];
    survivor.parent = moved_to_[survivor.parent];
    survivor.depth = node.depth;
    survivor.hint = 0;
    survivor.at_target = survivor.in_pass = false;
    survivors_.push_back(survivor);
  }
  for (Batch& batch : batches_) {
    for (ToDraft& asked : batch.nodes) {
      const uint32_t old = IndexOf(asked.node);
      const uint32_t index = old == kGone ? kGone : moved_to_[old];
      asked.node = index == kGone ? kNobody : survivors_[index].id;
    }
  }
  std::erase_if(candidates_, [&](DraftCandidate& candidate) {
    candidate.parent = moved_to_[candidate.parent];
    candidate.hint = 0;
    return candidate.parent == kGone;
  });
  nodes_.swap(survivors_);
}

// --- the running pass ---

void Sketcher::GuessPass(MonotonicTime now) {
  const Duration round_trip = Milliseconds(costs_.round_trip_ms());
  MonotonicTime first = MonotonicTime::max();
  for (size_t i = 1; i < nodes_.size() && !begins_when_told(); ++i) {
    if (nodes_[i].sent) first = std::min(first, nodes_[i].sent_at);
  }
  if (first == MonotonicTime::max()) {
    pass_running_ = !target_waits_;
    pass_begin_ = now - round_trip / 2;
    return;
  }
  pass_running_ = true;
  pass_begin_ = std::max(now - round_trip / 2, first + round_trip / 2);
  TakeSentBy(std::max(now - round_trip, first));
}

void Sketcher::TakeSentBy(MonotonicTime deadline) {
  order_.clear();
  for (uint32_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i].sent && nodes_[i].sent_at <= deadline) order_.push_back(i);
  }
  Take(options_.pass_node_count_max);
}

void Sketcher::PassWas(NodeId last, uint32_t node_count) {
  order_.clear();
  for (uint32_t i = 1; i < nodes_.size() && nodes_[i].id <= last; ++i) {
    if (nodes_[i].sent) order_.push_back(i);
  }
  Take(node_count);
}

// Of those in order_, which the target has: by doubt, then id, as a pass takes them.
void Sketcher::Take(uint32_t node_count) {
  for (size_t i = 1; i < nodes_.size(); ++i) nodes_[i].at_target = nodes_[i].in_pass = false;
  const auto doubt = [&](uint32_t i) { return sketch_.nodes()[i - 1].doubt; };
  std::ranges::sort(order_, [&](uint32_t a, uint32_t b) {
    return doubt(a) != doubt(b) ? doubt(a) < doubt(b) : a < b;
  });
  for (size_t k = 0; k < order_.size(); ++k) {
    nodes_[order_[k]].at_target = true;
    nodes_[order_[k]].in_pass = k < node_count;
  }
}

// --- what there is to do ---

bool Sketcher::drafting() const {
  return std::ranges::any_of(batches_, [](const Batch& batch) { return batch.number != 0; });
}

bool Sketcher::IsMoot(const Batch& batch) const {
  return batch.is_of_a_past || std::ranges::all_of(batch.nodes, [](const ToDraft& asked) {
           return asked.node == kNobody;
         });
}

std::optional<uint64_t> Sketcher::CancelMoot() {
  const auto moot = std::ranges::find_if(
      batches_, [&](const Batch& batch) { return batch.number != 0 && IsMoot(batch); });
  if (moot == batches_.end()) return std::nullopt;
  return std::exchange(moot->number, 0);
}

std::span<const Sketcher::ToDraft> Sketcher::NextBatch(MonotonicTime now) {
  const auto idle = std::ranges::find(batches_, uint64_t{0}, &Batch::number);
  if (idle == batches_.end() || (takes_turns() && pass_running_)) return {};
  expansions_.clear();
  policy_->Expand(View(now), expansions_);
  OUTRIDER_CHECK(expansions_.size() <= options_.batch_node_count_max,
                 "policies keep to what the drafter runs at once");
  for (const Expansion& expansion : expansions_) {
    DraftNode& node = nodes_[expansion.node];
    OUTRIDER_CHECK(node.children == DraftNode::Children::kUnknown, "no node is expanded twice");
    node.children = DraftNode::Children::kAsked;
  }
  if (expansions_.empty() || (takes_turns() && !IsWorthItsTurn(now))) return {};
  idle->number = ++newest_batch_;
  idle->is_of_a_past = false;
  idle->nodes.clear();
  for (const Expansion& expansion : expansions_) {
    idle->nodes.push_back({nodes_[expansion.node].id, expansion.child_count});
  }
  return idle->nodes;
}

// Whether the policy would hold a pass back for what has just been marked as asked. If not it has
// not been asked.
bool Sketcher::IsWorthItsTurn(MonotonicTime now) {
  if (policy_->Send(View(now), /*drafting=*/true) == Sending::kHold) return true;
  for (const Expansion& expansion : expansions_) {
    nodes_[expansion.node].children = DraftNode::Children::kUnknown;
  }
  return false;
}

// Nothing comes for a target that goes on alone, and this is news to it. From further away than a
// pass it would come when the target has gone on. Who holds back what it has (Sending::kHold) never
// grows during a pass, so nothing of it is ever due.
bool Sketcher::IsSilent(Sending sending) const {
  return !target_waits_ && !drafting() && sending != Sending::kHold && !said_nothing_comes_ &&
         costs_.round_trip_ms() < costs_.recent_pass_ms();
}

// Whether what is held is to go, and whether that is all until the next verdict.
std::optional<bool> Sketcher::GoesNow(MonotonicTime now) {
  const Sending sending = policy_->Send(View(now), drafting());
  // When nothing is under way any more will not come: to hold would be to hold for ever.
  const bool stuck = !drafting() && !pass_running_;
  if (sending == Sending::kHold && !stuck) return std::nullopt;
  if (takes_turns() && drafting()) return std::nullopt;
  const bool is_silent = IsSilent(sending);
  // The target begins nothing by itself with what was sent before. A root alone goes when the draft has had its
  // turn; beside one that drafts in waits, when its policy says so.
  const bool is_my_turn =
      begins_when_told() && !pass_running_ && (takes_turns() || nodes_.size() > 1);
  const bool go = sending == Sending::kGo || stuck || is_silent || is_my_turn;
  const bool holds_nothing = nodes_.size() == 1 || nodes_.back().sent;
  if (holds_nothing && (pass_running_ || !go) && !is_silent) return std::nullopt;
  said_nothing_comes_ = said_nothing_comes_ || is_silent;
  return go;
}

std::optional<Sketcher::Growth> Sketcher::NextGrowth(MonotonicTime now) {
  const std::optional<bool> go = rest_goes_ ? rest_goes_ : GoesNow(now);
  if (!go) return std::nullopt;
  size_t held = nodes_.size();
  while (held > 1 && !nodes_[held - 1].sent) --held;
  const size_t end = std::min<size_t>(nodes_.size(), held + options_.growth_node_count_max);
  const bool is_all = end == nodes_.size();
  rest_goes_ = is_all ? std::nullopt : go;

  for (size_t i = held; i < end; ++i) {
    nodes_[i].sent = true;
    nodes_[i].sent_at = now;
  }
  if (!pass_running_) {
    pass_running_ = true;
    pass_begin_ = now + Milliseconds(costs_.round_trip_ms() / 2 + costs_.queue_ms());
    TakeSentBy(now);
  }
  return Growth{sketch_.nodes().subspan(held - 1, end - held), *go && is_all};
}

}  // namespace outrider
