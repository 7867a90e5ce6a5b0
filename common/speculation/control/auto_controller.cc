#include "common/speculation/control/auto_controller.h"

#include <cmath>

#include "common/base/check.h"

namespace outrider {
namespace {

// A border has to be crossed by so much, or it would be crossed back and forth.
constexpr double kHysteresis = 0.05;

// Drafting that saves less than this share of the time is no gain.
constexpr double kGainMin = 0.01;
// Verdicts until the mean time of a token is that of the way alone, and until it is judged: by so
// many that a gain of a few percent is not lost to chance, far from the target with a good draft.
constexpr uint32_t kSettling = 32;
constexpr uint32_t kTrial = 256;
// By how many deviations of a mean it is behind when it is given up sooner; tokens of a verdict
// deviate by about their mean.
constexpr double kDeviations = 2;
// Verdicts without drafting.
constexpr uint32_t kRest = 512;
// What a pass has to take more or less for drafting to be tried at once.
constexpr double kChange = 0.25;

// The border as it is for what is on the side of `below` or not.
double Border(double at, bool below) {
  return below ? at * (1 + kHysteresis) : at * (1 - kHysteresis);
}

}  // namespace

AutoController::AutoController(const ControlSetup& setup)
    : setup_(setup), size_(setup.target_is_here) {
  course_ = CourseOf(way_);
  course_.dry.reset();  // before anything is known, as the session was opened
}

void AutoController::Decided(const DraftView& draft) {
  Choose(draft.costs);
  if (way_ != Way::kTargetAlone) size_.Decided(draft);
  course_ = CourseOf(way_);
}

Course AutoController::CourseOf(Way way) {
  // A draft next to the target spares the round trip that makes the one here useless.
  if (way == Way::kTargetAlone) {
    return {.placement = setup_.server_drafts ? Placement::kServer : Placement::kTargetAlone,
            .growth = &nothing_,
            .dry = Dry::kAlone};
  }
  return {.placement = setup_.target_is_here ? Placement::kLocal : Placement::kSplit,
          .growth = way == Way::kAwait ? &awaited_ : &ours_,
          .pass_nodes = size_.nodes(),
          .dry = way == Way::kGoOn ? Dry::kAlone : Dry::kWait};
}

AutoController::Way AutoController::Choose(const CostModel& costs) {
  ++verdicts_;
  const Way before = way_;
  way_ = Judged(costs);
  const bool drafted = before != Way::kTargetAlone;
  const bool drafts = way_ != Way::kTargetAlone;
  if (way_ != before && (MayFail(before) != MayFail(way_) || drafts != drafted)) {
    verdicts_ = 0;
    tokens_ = ms_ = 0;
    alone_ms_ = costs.root_pass_ms();
  }
  return way_;
}

AutoController::Way AutoController::Judged(const CostModel& costs) {
  if (way_ == Way::kTargetAlone) {
    const bool has_changed = std::abs(costs.root_pass_ms() - alone_ms_) > kChange * alone_ms_;
    return verdicts_ < kRest && !has_changed ? way_ : BestDrafting(costs);
  }
  const Way best = BestDrafting(costs);
  if (!MayFail(best) || !MayFail(way_) || verdicts_ <= kSettling) return best;
  return Gains(costs) ? best : Way::kTargetAlone;
}

// As far as is known. What is far behind the target alone need not be tried to the end.
bool AutoController::Gains(const CostModel& costs) {
  tokens_ += costs.tokens_per_pass();
  ms_ += costs.tokens_per_pass() / costs.tokens_per_ms();
  const double alone_ms = costs.root_pass_ms() * tokens_;
  const double chance = kDeviations / std::sqrt(verdicts_ - kSettling);
  if (verdicts_ < kTrial) return ms_ < (1 + chance) * alone_ms;
  const bool gains = ms_ < (1 - kGainMin) * alone_ms;
  verdicts_ = kSettling;
  tokens_ = ms_ = 0;
  return gains;
}

// A draft that is next to its server's target and waits for verdicts there gains or is not much
// behind. Where it takes the time of the target's own processor it may be.
bool AutoController::MayFail(Way way) const {
  return way == Way::kGoOn || setup_.target_is_here;
}

AutoController::Way AutoController::BestDrafting(const CostModel& costs) const {
  const double pass_ms = costs.recent_pass_ms();
  const double delay_ms = costs.round_trip_ms() + costs.queue_ms() + costs.DraftMs(1);
  const bool waits = way_ == Way::kWait || way_ == Way::kAwait;
  const bool is_far = delay_ms + 1 / costs.tokens_per_ms() > Border(pass_ms, waits);
  // One that goes on in this process takes the cores that the growth it does not wait for needs.
  if (is_far && !setup_.target_is_here) return Way::kGoOn;
  if (costs.round_trip_ms() > Border(kVeryNear, way_ != Way::kWait) * pass_ms) return Way::kWait;
  const double drafted = costs.tokens_per_pass() - 1;
  const bool quick = costs.DraftMs(1) < Border(kQuick, way_ == Way::kAwait) * drafted * pass_ms;
  const bool little = costs.tokens_per_pass() < Border(kLittleYield, way_ == Way::kAwait);
  return little || quick ? Way::kAwait : Way::kWait;
}

}  // namespace outrider
