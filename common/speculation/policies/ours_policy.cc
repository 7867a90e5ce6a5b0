#include "common/speculation/policies/ours_policy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numbers>

#include "common/speculation/costs/cost_model.h"
#include "common/speculation/costs/nearly_sure.h"
#include "common/speculation/policies/draft_shape.h"

namespace outrider {
namespace {

constexpr double kFullnessStep = 1.25;

// What growth costs, in the user's time: its bytes, on an uplink of 25 kB/s, and an eighth of the
// drafter's time, which is free but for the energy. (Over links of 60 and 100 ms, were bytes free, 1.7
// and 1.5 times as many of them would go up, and text come 2 to 3.5 % sooner; with an uplink of 17 kB/s
// in mind a fifth less, and text comes up to 5 % later.)
constexpr double kByteMs = 1.0 / 25;
constexpr double kNodeBytes = 2.5;
constexpr double kMessageMs = 3.0 / 8;  // a message, besides its nodes
constexpr double kDraftingMs = 1.0 / 8;

// What a batch has to add for a pass to wait for it, over what waiting costs, where it would go on beside the
// pass and be there for the next one. (Passes of 20 ms, no more than 10 ms away, batches of 1 to 10: text comes
// 0.5 % sooner than with 1, at one point 4.8 %, and nowhere more than 0.3 % later; with 2 up to 3 % later.)
constexpr double kHoldBeside = 1.5;

// A node that is not its parent's most probable child is seldom in a pass of a few nodes: it is a root to
// come, and worth nothing before something is drafted below it.
constexpr double kOtherChildren = 1.0 / 2;

// So deep below all nodes that nothing there is too late.
constexpr size_t kBeyond = 32;

double MsBetween(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// The chance that a text which is expected to have gone on by `expected` tokens has not gone on by
// more than `depth`: normal, with the variance of a Poisson count.
double NotPassed(double expected, double depth) {
  const double deviation = std::sqrt(std::max(expected, 0.25));
  return 0.5 * std::erfc((expected - depth - 0.5) / (deviation * std::numbers::sqrt2));
}

// Where others share a target, and it takes only nodes with a chance of `least`. A node is drafted for the
// pass after this one, too, which takes what has that chance from where it begins.
double FloorOfShared(double least) {
  return least < kNearlySure ? 0 : least * least;
}

}  // namespace

// Scratch for as many nodes as the sketch will ever hold.
void OursPolicy::ReserveFor(const DraftView& draft) {
  const size_t node_count_max = draft.nodes.size() + draft.room;
  if (child_count_.capacity() >= node_count_max) return;
  batch_.reserve(node_count_max);
  pass_.reserve(node_count_max);
  worth_.reserve(node_count_max + kBeyond);
  child_count_.reserve(node_count_max);
  children_.reserve(node_count_max * claims_.size());
  taken_.reserve(node_count_max);
  is_leaf_.reserve(node_count_max);
}

// --- joining ---

// A node that the text passes saves what a token takes, or some of it.
// So a node is worth its price where reach / tokens_per_ms, the time it may save, exceeds node_ms.
double OursPolicy::Floor(const DraftView& draft) const {
  const uint32_t batch = draft.batch_node_count_max;
  const double node_ms = kNodeBytes * kByteMs + kDraftingMs * draft.costs.DraftMs(batch) / batch;
  const double floor = std::clamp(node_ms * draft.costs.tokens_per_ms(), fullness_, kFloorMax);
  return std::max(floor, FloorOfShared(draft.costs.least_chance()));
}

void OursPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  const double floor = Floor(draft);
  const auto reach = [&](uint32_t i) {
    const DraftCandidate& candidate = draft.candidates[i];
    return draft.nodes[candidate.parent].reach * candidate.confidence;
  };
  for (uint32_t i = 0; i < draft.candidates.size(); ++i) {
    const double worth = draft.candidates[i].rank == 0 ? 1 : kOtherChildren;
    if (worth * reach(i) >= floor) candidates.push_back(i);
  }
  if (candidates.size() <= draft.room) return;
  std::ranges::sort(candidates, [&](uint32_t a, uint32_t b) {
    return reach(a) != reach(b) ? reach(a) > reach(b) : a < b;
  });
  candidates.resize(draft.room);
  std::ranges::sort(candidates);
}

void OursPolicy::Learn(const DraftView& draft, const DraftVerdict& /*verdict*/) {
  const double floor = Floor(draft);
  // The floor goes up by a step for every verdict that finds the sketch full, and down otherwise.
  fullness_ =
      draft.room == 0 ? std::min(floor * kFullnessStep, kFloorMax) : fullness_ / kFullnessStep;
}

// --- expanding ---

// worth(d) = max over j >= 0 of c^j NotPassed(d + j): a token j below is there with the chance that
// the best child has, c, each time.
void OursPolicy::WorthByDepth(const DraftView& draft) {
  uint32_t depth_max = 0;
  for (const DraftNode& node : draft.nodes) depth_max = std::max(depth_max, node.depth);
  worth_.assign(depth_max + 1 + kBeyond, 1);
  if (draft.target_waits) return;

  // When what is drafted now will have arrived, and so how many tokens the target, which writes on at
  // its pace, is expected to be ahead by then.
  const double until_there_ms = MsBetween(draft.pass_begin, draft.now) + draft.costs.DraftMs(1) +
                                draft.costs.round_trip_ms() / 2;
  const PassShape shape = ShapeOf(
      draft.nodes, [&](uint32_t i) { return draft.nodes[i].in_pass; }, is_leaf_);
  const double pass_ms = draft.costs.PassMs(shape) + draft.costs.queue_ms();
  const double expected = std::max(0.0, until_there_ms / pass_ms * draft.costs.tokens_per_pass());
  const double best = AverageClaims(draft).front();
  // From the deepest up: worth(d) = max(NotPassed(d), c worth(d + 1)).
  double below = 0;
  for (size_t depth = worth_.size(); depth-- > 0;) {
    below = std::max(NotPassed(expected, static_cast<double>(depth)), best * below);
    worth_[depth] = below;
  }
}

// The nodes to expand next, best first, in batch_.
void OursPolicy::ChooseBatch(const DraftView& draft) {
  ReserveFor(draft);
  batch_.clear();
  if (draft.room == 0) return;
  const double floor = Floor(draft);
  if (floor >= 1) return;  // no child has such a chance
  WorthByDepth(draft);
  const auto worth = [&](uint32_t i) {
    return draft.nodes[i].reach * worth_[draft.nodes[i].depth];
  };
  for (uint32_t i = 0; i < draft.nodes.size(); ++i) {
    if (CanExpand(draft.nodes[i]) && draft.nodes[i].reach >= floor) batch_.push_back(i);
  }
  const size_t count = std::min<size_t>(batch_.size(), draft.batch_node_count_max);
  std::partial_sort(
      batch_.begin(), batch_.begin() + static_cast<ptrdiff_t>(count), batch_.end(),
      [&](uint32_t a, uint32_t b) { return worth(a) != worth(b) ? worth(a) > worth(b) : a < b; });
  // The batch of the most worth per time: a node more is worth less than those before it, but the
  // drafter takes little longer for it.
  double sum = 0;
  double best_rate = 0;
  size_t best_count = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += worth(batch_[i]);
    const double rate = sum / draft.costs.DraftMs(static_cast<uint32_t>(i + 1));
    if (rate <= best_rate) continue;
    best_rate = rate;
    best_count = i + 1;
  }
  batch_.resize(best_count);
}

void OursPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  ChooseBatch(draft);
  for (const uint32_t i : batch_) batch.push_back({i, draft.child_count_max});
}

// --- sending ---

// By the order in which they joined, which is that of their ranks.
const OursPolicy::Claims& OursPolicy::AverageClaims(const DraftView& draft) {
  child_count_.assign(draft.nodes.size(), 0);
  claims_.fill(0);
  uint32_t parent_count = 0;
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    const uint32_t rank = child_count_[node.parent]++;
    if (rank == 0) ++parent_count;
    if (rank < claims_.size()) claims_[rank] += node.confidence;
  }
  for (double& claim : claims_) claim /= std::max(parent_count, 1U);
  return claims_;
}

// What children of the batch's nodes are expected to add to the pass in pass_. Where that is full they take the
// places of its least probable nodes; a place that was free makes it a row longer, which costs what text comes in
// that time.
double OursPolicy::BatchGain(const DraftView& draft, double tokens_per_ms) {
  const Claims& claims = AverageClaims(draft);
  const size_t ranks = std::min<size_t>(claims.size(), draft.child_count_max);
  children_.clear();
  for (const uint32_t i : batch_) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      children_.push_back(draft.nodes[i].reach * claims[rank]);
    }
  }
  std::ranges::sort(children_, std::greater());
  auto rows = static_cast<uint32_t>(1 + pass_.size());
  auto least = pass_.rbegin();
  double gain = 0;
  for (const double reach : children_) {
    double lost = 0;
    if (rows <= draft.pass_node_count_max) {
      lost = draft.costs.row_ms(++rows).value_or(0) * tokens_per_ms;
    } else {
      if (least == pass_.rend()) break;
      lost = draft.nodes[*least++].reach;
    }
    if (reach <= lost) break;
    gain += reach - lost;
  }
  return gain;
}

// The nodes of the pass as it would be now, in pass_; returns its expected tokens.
double OursPolicy::FormPass(const DraftView& draft) {
  pass_.clear();
  for (uint32_t i = 1; i < draft.nodes.size(); ++i) pass_.push_back(i);
  std::ranges::sort(pass_, [&](uint32_t a, uint32_t b) {
    const double x = draft.nodes[a].reach;
    const double y = draft.nodes[b].reach;
    return x != y ? x > y : a < b;
  });
  pass_.resize(std::min<size_t>(pass_.size(), draft.pass_node_count_max));
  double tokens = 1;
  for (const uint32_t i : pass_) tokens += draft.nodes[i].reach;
  return tokens;
}

// Until the batch under way is done, to go up with what it adds: that delays what is held, and
// saves a message.
bool OursPolicy::IsWorthHolding(const DraftView& draft) {
  double reach = 0;
  uint32_t asked = 0;
  for (const DraftNode& node : draft.nodes) {
    if (!node.sent) reach += node.reach;
    if (node.children == DraftNode::Children::kAsked) ++asked;
  }
  return reach * draft.costs.DraftMs(std::max(asked, 1U)) < kMessageMs;
}

Sending OursPolicy::Send(const DraftView& draft, bool drafting) {
  ReserveFor(draft);
  if (draft.pass_running) {
    return ahead_ && !(drafting && IsWorthHolding(draft)) ? Sending::kSend : Sending::kHold;
  }
  if (!drafting) return Sending::kGo;
  if (draft.nodes.size() == 1) return Sending::kHold;

  const double tokens = FormPass(draft);
  taken_.assign(draft.nodes.size(), 0);
  for (const uint32_t i : pass_) taken_[i] = 1;
  const PassShape shape = ShapeOf(
      draft.nodes, [&](uint32_t i) { return taken_[i] != 0; }, is_leaf_);
  const double pass_ms = draft.costs.PassMs(shape) + draft.costs.queue_ms();

  batch_.clear();
  for (uint32_t i = 0; i < draft.nodes.size(); ++i) {
    if (draft.nodes[i].children == DraftNode::Children::kAsked) batch_.push_back(i);
  }
  if (batch_.empty()) ChooseBatch(draft);  // what is under way is of the past: the one after it
  if (batch_.empty()) return Sending::kSend;
  // Hold while gain / draft_ms > the pace of text, or more than that (ours_policy.h).
  const double tokens_per_ms = draft.takes_turns ? draft.costs.tokens_per_ms() : tokens / pass_ms;
  const double gain = BatchGain(draft, tokens_per_ms);
  const double draft_ms = draft.costs.DraftMs(static_cast<uint32_t>(batch_.size()));
  const double least = draft.takes_turns ? 1 : kHoldBeside;
  return gain > least * tokens_per_ms * draft_ms ? Sending::kHold : Sending::kSend;
}

}  // namespace outrider
