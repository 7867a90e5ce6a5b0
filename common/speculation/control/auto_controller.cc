#include "common/speculation/control/auto_controller.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace outrider {
namespace {

// A border has to be crossed by so much, or it would be crossed back and forth.
constexpr double kHysteresis = 0.05;

// Drafting that saves less than this share of the time is no gain.
constexpr double kGainMin = 0.01;
// Verdicts until text comes as it does with the way alone.
constexpr uint32_t kSettling = 32;
// By how many deviations of a mean it is behind when it is given up sooner; tokens of a verdict
// deviate by about their mean.
constexpr double kDeviations = 2;
// What a pass has to take more or less for drafting to be tried at once.
constexpr double kChange = 0.25;
// Of a pass, what goes by between two of them for the server's draft to be worth a trial.
constexpr double kIdle = 0.15;

// The border as it is for what is on the side of `below` or not.
double Border(double at, bool below) {
  return below ? at * (1 + kHysteresis) : at * (1 - kHysteresis);
}

bool DraftsHere(AutoController::Way way) {
  return way != AutoController::Way::kTargetAlone && way != AutoController::Way::kAtServer;
}

}  // namespace

AutoController::AutoController(const ControlSetup& setup)
    : setup_(setup),
      may_ask_server_(setup.server_drafts && setup.objective != Objective::kServer),
      server_(setup.before ? setup.before->server : ServerFindings()),
      size_(setup),
      hints_(!setup.before || setup.before->hints) {
  if (may_ask_server_ && server_.findings().at_server) way_ = Way::kAtServer;
  if (setup.target_streams) way_ = Way::kAwait;
  course_ = CourseOf(way_);
  if (DraftsHere(way_)) course_.dry.reset();  // before anything is known, as the session was opened
}

Findings AutoController::findings() const {
  return {.pass_nodes = size_.nodes(), .hints = hints_.wanted(), .server = server_.findings()};
}

void AutoController::Decided(const DraftView& draft) {
  if (way_ == Way::kWait || way_ == Way::kAwait) waiting_tokens_ = draft.costs.tokens_per_pass();
  Choose(draft.costs);
  if (DraftsHere(way_)) size_.Decided(draft);
  course_ = CourseOf(way_);
}

Course AutoController::CourseOf(Way way) {
  if (!DraftsHere(way)) {
    const bool at_server = way == Way::kAtServer;
    return {.placement = at_server ? Placement::kServer : Placement::kTargetAlone,
            .growth = &nothing_,
            .hints = false,
            .dry = Dry::kAlone};
  }
  return {.placement = setup_.target_is_here ? Placement::kLocal : Placement::kSplit,
          .growth = way == Way::kAwait ? &awaited_ : &ours_,
          .pass_nodes = size_.nodes(),
          .hints = hints_.wanted(),
          .dry = way == Way::kGoOn ? Dry::kAlone : Dry::kWait};
}

AutoController::Way AutoController::Choose(const CostModel& costs) {
  const Way before = way_;
  way_ = Judged(costs);
  counted_ = costs.text();
  if (before == Way::kAtServer || way_ == Way::kAtServer || way_ == before) return way_;
  if (MayFail(before) != MayFail(way_) || way_ == Way::kTargetAlone ||
      before == Way::kTargetAlone) {
    verdicts_ = 0;
    tokens_ = ms_ = 0;
    alone_ms_ = costs.root_pass_ms();
  }
  return way_;
}

AutoController::Way AutoController::Judged(const CostModel& costs) {
  if (may_ask_server_ && server_.Decide(costs, MayGainAtServer(costs))) {
    if (way_ != Way::kAtServer) otherwise_ = way_;
    return Way::kAtServer;
  }
  return way_ == Way::kAtServer ? otherwise_ : JudgedHere(costs);
}

// A target that goes on without what is drafted, or waits for it, has something to gain.
bool AutoController::MayGainAtServer(const CostModel& costs) const {
  if (way_ == Way::kGoOn || way_ == Way::kTargetAlone) return true;
  const double between_ms = costs.tokens_per_pass() / costs.tokens_per_ms();
  return between_ms > (1 + kIdle) * costs.recent_pass_ms();
}

AutoController::Way AutoController::JudgedHere(const CostModel& costs) {
  ++verdicts_;
  if (way_ == Way::kTargetAlone) {
    const bool has_changed = std::abs(costs.root_pass_ms() - alone_ms_) > kChange * alone_ms_;
    return verdicts_ < kRest && !has_changed ? way_ : BestDrafting(costs);
  }
  const Way best = BestDrafting(costs);
  if (setup_.objective == Objective::kServer && verdicts_ > kSettling && !SparesWork(costs)) {
    return Way::kTargetAlone;
  }
  if (!MayFail(best) || !MayFail(way_) || verdicts_ <= kSettling) return best;
  return Gains(costs) ? best : Way::kTargetAlone;
}

// As far as is known. What is far behind the target alone need not be tried to the end.
bool AutoController::Gains(const CostModel& costs) {
  tokens_ += costs.text().tokens - counted_.tokens;
  ms_ += costs.text().ms - counted_.ms;
  const double alone_ms = costs.root_pass_ms() * tokens_;
  const double chance = kDeviations / std::sqrt(verdicts_ - kSettling);
  if (verdicts_ < kTrial) return ms_ <= (1 + chance) * alone_ms;
  const bool gains = ms_ < (1 - kGainMin) * alone_ms;
  verdicts_ = kSettling;
  tokens_ = ms_ = 0;
  return gains;
}

// A draft that is next to its server's target and waits for verdicts there gains or is not much
// behind. Beside a target here it may be: it takes the time of the cores that they share, or has
// cores of its own that are slow beside a GPU.
bool AutoController::MayFail(Way way) const {
  return way == Way::kGoOn || setup_.target_is_here;
}

// One that goes on takes the cores that the growth it does not wait for needs, if it shares them.
bool AutoController::MayGoOn(double delay_ms, double pass_ms) const {
  if (setup_.shares_cores || setup_.objective == Objective::kServer) return false;
  if (setup_.objective == Objective::kTime) return true;
  const double more_work = Border(waiting_tokens_ * waiting_tokens_, way_ != Way::kGoOn);
  return delay_ms + pass_ms > more_work * pass_ms;
}

// Of the target's time.
bool AutoController::SparesWork(const CostModel& costs) const {
  return (1 + kGainMin) * costs.recent_pass_ms() < costs.tokens_per_pass() * costs.root_pass_ms();
}

// What drafted rows take of a pass: all of it before their price is known, unless flash hides it.
double AutoController::RowShare(const CostModel& costs) const {
  const std::optional<double> row_ms = costs.row_ms();
  if (!row_ms) return setup_.target_streams ? 0 : 1;
  return *row_ms * size_.nodes() / costs.recent_pass_ms();
}

bool AutoController::IsNear(const CostModel& costs) const {
  const bool waits = way_ == Way::kWait || way_ == Way::kAwait;
  return costs.round_trip_ms() < Border(kNear, waits) * costs.recent_pass_ms();
}

// So little that growth is better in the light of the verdict than before it. A pass that is read from flash
// takes so long that its growth is to be the best that there is. (On shared cores nothing is drafted during one.)
bool AutoController::YieldsLittle(const CostModel& costs) const {
  if (setup_.target_streams) return true;
  const bool awaits = way_ == Way::kAwait;
  const bool is_beside = !setup_.shares_cores &&
                         costs.round_trip_ms() < Border(kNone, awaits) * costs.recent_pass_ms();
  return costs.tokens_per_pass() < Border(is_beside ? kYieldBeside : kLittleYield, awaits);
}

AutoController::Way AutoController::BestDrafting(const CostModel& costs) const {
  const double pass_ms = costs.recent_pass_ms();
  const double alone_ms = costs.root_pass_ms();  // what a target that goes on goes on with
  const double delay_ms = costs.round_trip_ms() + costs.queue_ms() + costs.DraftMs(1);
  const bool waits = way_ == Way::kWait || way_ == Way::kAwait;
  const bool is_near = IsNear(costs);
  const double row_share = RowShare(costs);
  const double least_ms =
      is_near && row_share < kFreeRows ? kLate * pass_ms : alone_ms - 1 / costs.tokens_per_ms();
  const bool is_late = delay_ms > Border(least_ms, waits);
  const bool is_in_vain = costs.least_chance() >= 1;  // to wait for growth
  if ((is_late || is_in_vain) && MayGoOn(delay_ms, pass_ms)) return Way::kGoOn;
  const bool is_cheap = row_share < Border(kDearRows, way_ == Way::kAwait);
  return is_near && is_cheap && YieldsLittle(costs) ? Way::kAwait : Way::kWait;
}

}  // namespace outrider
