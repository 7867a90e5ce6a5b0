#include "common/speculation/control/pass_size.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "common/speculation/costs/cost_model.h"

namespace outrider {
namespace {

// From a node to the next best one its worth falls by no more and no less than this.
constexpr double kFallMax = 0.5;
constexpr double kFallMin = 0.95;
// A draft that is further off than so says nothing.
constexpr double kTruthMin = 0.25;
constexpr double kTruthMax = 2;
// What a row takes of a pass at the most, and on processors at the least, until passes have told. It may be dearer, and
// on a GPU it is cheaper.
constexpr double kRowShareMost = 0.1;
constexpr double kRowShareLeast = 0.03;
// What is as unlikely as this is in no pass of a size that there is.
constexpr double kPathMin = 0.02;

// Of the nodes that a size adds, where the one in the middle stands among all.
double Middle(size_t size) {
  const uint32_t before = size == 0 ? 0 : PassSize::kSizes[size - 1];
  return (before + 1 + PassSize::kSizes[size]) / 2.0;
}

}  // namespace

PassSize::PassSize(const ControlSetup& setup)
    : rows_are_hidden_(setup.target_streams), size_(setup.shares_cores ? kFirstShared : kFirst) {
  if (setup.before) {
    const auto at_least = std::ranges::lower_bound(kSizes, setup.before->pass_nodes);
    size_ = std::min(kSizes.size() - 1, static_cast<size_t>(at_least - kSizes.begin()));
  }
  nodes_ = kSizes[size_];
}

void PassSize::Decided(const DraftView& draft) {
  Learn(draft);
  Move(draft);
  const uint32_t before = std::exchange(nodes_, kSizes[size_]);
  if (IsToProbe(draft.costs) && nodes_ == before) nodes_ = Probed(draft);
}

// The tokens that come in a time, at the pace of passes and, where drafting takes its turn, of drafting.
double PassSize::TokensIn(double ms, const DraftView& draft) {
  const CostModel& costs = draft.costs;
  if (draft.takes_turns) return ms * costs.tokens_per_ms();
  return ms * costs.tokens_per_pass() / costs.recent_pass_ms();
}

// A larger one where that costs little, even if rows are as dear as they may be on a processor. Passes may have fewer
// nodes than they could take: one that could take a few less would be none the smaller.
uint32_t PassSize::Probed(const DraftView& draft) const {
  const size_t next = std::min(size_ + 1, kSizes.size() - 1);
  if (Worth(next) > LeastWorth(next, kRowShareMost / 2, draft)) return kSizes[next];
  const uint32_t usual = std::min(nodes_, taken_);
  if (usual < kSmall) return kLargerThanSmall;
  if (usual < kLarge) return usual / 2;
  return *std::prev(std::ranges::upper_bound(kSizes, usual * 3 / 4));
}

bool PassSize::IsToProbe(const CostModel& costs) {
  if (costs.row_ms_is_fresh() || costs.foresees_rows()) {
    unpriced_ = 0;
    return false;
  }
  ++unpriced_;
  const uint32_t at_first = costs.row_ms() ? 4 : 2;
  return unpriced_ % (unpriced_ < kProbesFirst ? at_first : kProbeEvery) == 0;
}

void PassSize::Learn(const DraftView& draft) {
  double promised = 0;
  taken_ = 0;
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    if (!node.in_pass) continue;
    promised += node.path;
    ++taken_;
  }
  promised_.Add(promised);
  paths_.clear();
  if (draft.takes_turns) {
    AddGrown(draft);
  } else {
    AddShown(draft);
  }
  std::ranges::sort(paths_, std::greater());
  auto first = paths_.cbegin();
  for (size_t i = 0; i < kSizes.size() && kSizes[i] <= paths_.size(); ++i) {
    const auto last = paths_.cbegin() + kSizes[i];
    worth_[i].Add(std::accumulate(first, last, 0.0) / static_cast<double>(last - first));
    first = last;
  }
}

// The nodes that the target had when the pass began.
void PassSize::AddShown(const DraftView& draft) {
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    if (node.at_target) paths_.push_back(node.path);
  }
}

// What has been drafted, and what would have been below each leaf: a best child of the usual chance, its
// best child, and so on. Those take a batch each, which their siblings have for nothing, as the root's
// children have theirs: some is drafted for every pass.
void PassSize::AddGrown(const DraftView& draft) {
  best_child_.assign(draft.nodes.size(), 0);
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    best_child_[node.parent] = std::max(best_child_[node.parent], node.confidence);
  }
  for (const double confidence : best_child_) {
    if (confidence > 0) continuation_.Add(std::min(confidence, kFallMin));
  }
  const double batch = TokensIn(draft.costs.DraftMs(1), draft) / Truth(draft.costs);
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    const bool took_a_batch = node.parent != 0 && node.confidence == best_child_[node.parent];
    paths_.push_back(took_a_batch ? std::max(0.0, node.path - batch) : node.path);
    if (node.children != DraftNode::Children::kUnknown) continue;
    for (double path = node.path * continuation_.Value(); path > batch + kPathMin;
         path *= continuation_.Value()) {
      paths_.push_back(path - batch);
    }
  }
}

double PassSize::Truth(const CostModel& costs) const {
  if (promised_.Value() <= 0) return 1;
  return std::clamp((costs.tokens_per_pass() - 1) / promised_.Value(), kTruthMin, kTruthMax);
}

double PassSize::Worth(size_t size) const {
  return worth_[size].empty() ? Supposed(size) : worth_[size].Value();
}

// Nothing of what stands two sizes above all that is known.
double PassSize::Supposed(size_t size) const {
  if (size == 0) return 1;
  if (worth_[size - 1].empty()) return 0;
  const double before = worth_[size - 1].Value();
  const double fall =
      size == 1 ? before
                : std::pow(before / Worth(size - 2), 1 / (Middle(size - 1) - Middle(size - 2)));
  return before * std::pow(std::clamp(fall, kFallMax, kFallMin), Middle(size) - Middle(size - 1));
}

// What the nodes that a size adds have to be worth; `share`: of a pass, where nothing tells what a row takes.
double PassSize::LeastWorth(size_t size, double share, const DraftView& draft) const {
  const CostModel& costs = draft.costs;
  const double row_ms = costs.row_ms(1 + kSizes[size]).value_or(share * costs.recent_pass_ms());
  return TokensIn(row_ms, draft) / Truth(costs);
}

void PassSize::Move(const DraftView& draft) {
  const auto least = [&](size_t size, double share) { return LeastWorth(size, share, draft); };
  if (size_ + 1 < kSizes.size() && Worth(size_ + 1) > kUp * least(size_ + 1, kRowShareMost)) {
    ++size_;
  } else if (size_ > 0 &&
             Worth(size_) < kDown * least(size_, rows_are_hidden_ ? 0 : kRowShareLeast)) {
    --size_;
  }
}

}  // namespace outrider
