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
// Verdicts without drafting.
constexpr uint32_t kRest = 512;
// What a pass has to take more or less for drafting to be tried at once.
constexpr double kChange = 0.25;

// The border as it is for what is on the side of `below` or not.
double Border(double at, bool below) {
  return below ? at * (1 + kHysteresis) : at * (1 - kHysteresis);
}

}  // namespace

AutoController::AutoController(const ControlSetup& setup) : setup_(setup) {
  course_ = CourseOf(way_);
  course_.dry.reset();  // before anything is known, as the session was opened
}

void AutoController::Decided(const DraftView& draft) {
  Choose(draft.costs);
  course_ = CourseOf(way_);
}

Course AutoController::CourseOf(Way way) {
  const Placement drafting = setup_.target_is_here ? Placement::kLocal : Placement::kSplit;
  switch (way) {
    case Way::kAwait:
      return {.placement = drafting, .growth = &awaited_, .dry = Dry::kWait};
    case Way::kWait:
      return {.placement = drafting, .growth = &ours_, .dry = Dry::kWait};
    case Way::kGoOn:
      return {.placement = drafting, .growth = &ours_, .dry = Dry::kAlone};
    case Way::kTargetAlone:
      // A draft next to the target spares the round trip that makes this one useless.
      return {.placement = setup_.server_drafts ? Placement::kServer : Placement::kTargetAlone,
              .growth = &nothing_,
              .dry = Dry::kAlone};
  }
  OUTRIDER_CHECK(false, "every way has a course");
}

AutoController::Way AutoController::Choose(const CostModel& costs) {
  ++verdicts_;
  const Way before = way_;
  way_ = Judged(costs);
  const bool drafted = before != Way::kTargetAlone;
  const bool drafts = way_ != Way::kTargetAlone;
  if (way_ != before && (before == Way::kGoOn || drafts != drafted)) {
    verdicts_ = 0;
    tokens_ = ms_ = 0;
    alone_ms_ = costs.root_pass_ms();
  }
  return way_;
}

AutoController::Way AutoController::Judged(const CostModel& costs) {
  const double pass_ms = costs.root_pass_ms();
  if (way_ == Way::kTargetAlone) {
    const bool has_changed = std::abs(pass_ms - alone_ms_) > kChange * alone_ms_;
    return verdicts_ < kRest && !has_changed ? way_ : BestDrafting(costs);
  }
  const Way best = BestDrafting(costs);
  if (best != Way::kGoOn || way_ != Way::kGoOn) return best;
  if (verdicts_ > kSettling) {
    tokens_ += costs.tokens_per_pass();
    ms_ += costs.tokens_per_pass() / costs.tokens_per_ms();
  }
  if (verdicts_ < kTrial) return best;
  const bool gains = ms_ < (1 - kGainMin) * pass_ms * tokens_;
  verdicts_ = kSettling;
  tokens_ = ms_ = 0;
  return gains ? best : Way::kTargetAlone;
}

AutoController::Way AutoController::BestDrafting(const CostModel& costs) const {
  const double pass_ms = costs.recent_pass_ms();
  const double delay_ms = costs.round_trip_ms() + costs.queue_ms() + costs.DraftMs(1);
  const bool waits = way_ == Way::kWait || way_ == Way::kAwait;
  if (delay_ms + 1 / costs.tokens_per_ms() > Border(pass_ms, waits)) return Way::kGoOn;
  if (costs.round_trip_ms() > Border(kVeryNear, way_ != Way::kWait) * pass_ms) return Way::kWait;
  const double drafted = costs.tokens_per_pass() - 1;
  if (costs.DraftMs(1) < Border(kQuick, way_ == Way::kGoOn) * drafted * pass_ms) return Way::kGoOn;
  const bool little = costs.tokens_per_pass() < Border(kLittleYield, way_ == Way::kAwait);
  return little ? Way::kAwait : Way::kWait;
}

}  // namespace outrider
