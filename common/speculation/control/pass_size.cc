#include "common/speculation/control/pass_size.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/speculation/costs/cost_model.h"

namespace outrider {
namespace {

// From a node to the next best one its worth falls by no more and no less than this.
constexpr double kFallMax = 0.5;
constexpr double kFallMin = 0.95;
// A draft that is further off than so says nothing.
constexpr double kTruthMin = 0.25;
constexpr double kTruthMax = 2;

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
  if (const std::optional<double> row_ms = draft.costs.row_ms()) {
    Move(*row_ms * draft.costs.tokens_per_pass() / draft.costs.recent_pass_ms() /
         Truth(draft.costs));
  }
  nodes_ = kSizes[size_];
  if (IsToProbe(draft.costs)) nodes_ = Probed();
}

uint32_t PassSize::Probed() const {
  if (rows_are_hidden_ && size_ + 1 < kSizes.size()) {
    return kSizes[std::min(size_ + 2, kSizes.size() - 1)];
  }
  return nodes_ < kSmall ? kLargerThanSmall : nodes_ / 2;
}

bool PassSize::IsToProbe(const CostModel& costs) {
  if (costs.row_ms_is_fresh()) {
    unpriced_ = 0;
    return false;
  }
  ++unpriced_;
  const uint32_t at_first = costs.row_ms() ? 4 : 2;
  return unpriced_ % (unpriced_ < kProbesFirst ? at_first : kProbeEvery) == 0;
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
  auto first = paths_.cbegin();
  for (size_t i = 0; i < kSizes.size() && kSizes[i] <= paths_.size(); ++i) {
    const auto last = paths_.cbegin() + kSizes[i];
    worth_[i].Add(std::accumulate(first, last, 0.0) / static_cast<double>(last - first));
    first = last;
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

void PassSize::Move(double least_worth) {
  if (size_ + 1 < kSizes.size() && Worth(size_ + 1) > kUp * least_worth) {
    ++size_;
  } else if (size_ > 0 && Worth(size_) < kDown * least_worth) {
    --size_;
  }
}

}  // namespace outrider
