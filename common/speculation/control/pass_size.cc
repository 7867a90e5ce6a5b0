#include "common/speculation/control/pass_size.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "common/speculation/costs/cost_model.h"

namespace outrider {
namespace {

// Of a node that is next to the last one seen, what is supposed of its worth.
constexpr double kFallsTo = 0.5;
// A draft that is further off than so says nothing.
constexpr double kTruthMin = 0.25;
constexpr double kTruthMax = 2;

}  // namespace

void PassSize::Decided(const DraftView& draft) {
  Learn(draft);
  nodes_ = kSizes[size_];
  const std::optional<double> row_ms = draft.costs.row_ms();
  if (row_ms) {
    unpriced_ = 0;
    Move(*row_ms * draft.costs.tokens_per_pass() / draft.costs.recent_pass_ms() /
         Truth(draft.costs));
    nodes_ = kSizes[size_];
  } else if (++unpriced_ % kProbeEvery == 0) {
    nodes_ = std::max(1U, nodes_ / 2);
  }
}

// From the nodes that the target had when the pass began.
void PassSize::Learn(const DraftView& draft) {
  const auto half_way = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(draft.costs.round_trip_ms() / 2));
  paths_.clear();
  double promised = 0;
  for (const DraftNode& node : draft.nodes.subspan(1)) {
    if (node.in_pass) promised += node.path;
    if (node.sent && node.sent_at + half_way <= draft.pass_begin) paths_.push_back(node.path);
  }
  promised_.Add(promised);
  std::ranges::sort(paths_, std::greater());
  for (size_t i = 0; i < kSizes.size() && kSizes[i] <= paths_.size(); ++i) {
    worth_[i].Add(paths_[kSizes[i] - 1]);
  }
}

double PassSize::Truth(const CostModel& costs) const {
  if (promised_.Value() <= 0) return 1;
  return std::clamp((costs.tokens_per_pass() - 1) / promised_.Value(), kTruthMin, kTruthMax);
}

// Of a size that no draft has had nodes for: less than that of the one before it.
double PassSize::Worth(size_t size) const {
  double falls = 1;
  for (; size > 0; --size, falls *= kFallsTo) {
    if (!worth_[size].empty()) break;
  }
  return worth_[size].empty() ? 1 : falls * worth_[size].Value();
}

void PassSize::Move(double least_worth) {
  if (size_ + 1 < kSizes.size() && Worth(size_ + 1) > least_worth * (1 + kMargin)) {
    ++size_;
  } else if (size_ > 0 && Worth(size_) < least_worth * (1 - kMargin)) {
    --size_;
  }
}

}  // namespace outrider
