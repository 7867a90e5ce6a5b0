#include "common/speculation/control/server_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace outrider {
namespace {

// By how many deviations of the difference of two means a lead is no chance; and what the tokens of a
// verdict deviate by, of their mean.
constexpr double kSure = 2;
constexpr double kSpread = 0.6;
// Verdicts of a trial without which nothing is said of it.
constexpr double kFew = 6;

void Add(double tokens, double ms, Pace& pace) {
  constexpr double kKept = 1 - 1 / ServerTrial::kMemory;
  if (pace.verdicts >= ServerTrial::kMemory) {
    pace = {pace.verdicts * kKept, pace.tokens * kKept, pace.ms * kKept};
  }
  pace.verdicts += 1;
  pace.tokens += tokens;
  pace.ms += ms;
}

bool IsPossible(const Pace& pace) {
  constexpr double kTokensMax = 1e6;
  constexpr double kMillisecondsMax = 1e9;
  return pace.verdicts >= 0 && pace.verdicts <= ServerTrial::kMemory + 1 && pace.tokens >= 0 &&
         pace.tokens <= kTokensMax && pace.ms >= 0 && pace.ms <= kMillisecondsMax;
}

}  // namespace

bool ServerFindings::MakesSense() const {
  return length >= 1 && length <= kLongMax && verdicts <= length && next_long >= kLongMin &&
         next_long <= kLongMax && IsPossible(here) && IsPossible(there);
}

bool ServerTrial::Decide(const CostModel& costs, bool may_gain) {
  Count(costs);
  if (HasChanged(costs)) {
    found_ = {};
    return false;
  }
  const bool is_over = found_.verdicts >= found_.length;
  if (found_.tries) {
    if (is_over || IsBehind()) Choose();
  } else if (is_over && (found_.at_server || may_gain)) {
    Begin(!found_.at_server, true, kTrial);
  }
  return found_.at_server;
}

void ServerTrial::Count(const CostModel& costs) {
  const CostModel::Text before = std::exchange(counted_, costs.text());
  found_.verdicts = std::min(found_.verdicts + 1, found_.length);
  const double ms = counted_.ms - before.ms;
  if (found_.verdicts <= kArrival || ms <= 0) return;
  Add(counted_.tokens - before.tokens, ms, found_.at_server ? found_.there : found_.here);
}

// At the server alone: here passes are as large as they are wanted.
bool ServerTrial::HasChanged(const CostModel& costs) {
  if (!found_.at_server || found_.tries) {
    pass_ms_ = 0;
    return false;
  }
  if (pass_ms_ == 0 && found_.verdicts > kArrival) pass_ms_ = costs.recent_pass_ms();
  return pass_ms_ > 0 && std::abs(costs.recent_pass_ms() - pass_ms_) > kChange * pass_ms_;
}

// Whether the one leads by more than chance.
bool ServerTrial::IsClear() const {
  const double here = found_.here.rate();
  const double there = found_.there.rate();
  if (here == 0 || there == 0) return false;
  const double variance = 1 / found_.here.verdicts + 1 / found_.there.verdicts;
  const double ratio = std::max(here, there) / std::min(here, there);
  return ratio > 1 + kSure * kSpread * std::sqrt(variance);
}

// What is tried, so clearly that it need not be tried to the end.
bool ServerTrial::IsBehind() const {
  const bool is_sooner_there = found_.there.rate() > found_.here.rate();
  return found_.verdicts > kArrival + kFew && is_sooner_there != found_.at_server && IsClear();
}

void ServerTrial::Choose() {
  const bool at_server = found_.there.rate() > (1 + kGainMin) * found_.here.rate();
  if (!IsClear()) return Begin(at_server, false, kSoon);
  Begin(at_server, false, found_.next_long);
  found_.next_long = std::min(2 * found_.next_long, ServerFindings::kLongMax);
}

// Verdicts that follow those of the same side have nothing to arrive.
void ServerTrial::Begin(bool at_server, bool tries, uint32_t length) {
  const bool goes_on = at_server == found_.at_server;
  found_.at_server = at_server;
  found_.tries = tries;
  found_.verdicts = goes_on ? kArrival : 0;
  found_.length = length;
}

}  // namespace outrider
