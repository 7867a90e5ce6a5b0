#include "common/speculation/control/server_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace outrider {
namespace {

// By how many deviations of the difference of two means a lead is no chance; and what the tokens of a
// verdict deviate by, of their mean; and the means of two drafts.
constexpr double kSure = 2;
constexpr double kSpread = 0.6;
constexpr double kUnlike = 0.15;
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
    settling_ = 0;
    return found_.at_server;
  }
  const bool is_over = found_.verdicts >= found_.length;
  if (found_.tries) {
    if (is_over || IsBehind()) Choose();
  } else if ((is_over && (found_.at_server || may_gain)) || IsInVain(costs)) {
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

// At the server alone: here passes are as large as they are wanted. The first ones of a text are no measure:
// it has a prompt, which others may have been read beside.
bool ServerTrial::HasChanged(const CostModel& costs) {
  if (!found_.at_server || found_.tries) {
    settling_ = 0;
    return false;
  }
  if (settling_ < kSettling) {
    ++settling_;
    pass_ms_ = costs.recent_pass_ms();
    return false;
  }
  return std::abs(costs.recent_pass_ms() - pass_ms_) > kChange * pass_ms_;
}

// Two drafts that nothing is known of are supposed to be alike, but for kUnlike.
std::optional<ServerTrial::Lead> ServerTrial::LeadOfServer() const {
  const Pace& here = found_.here;
  const Pace& there = found_.there;
  if (here.rate() == 0 || there.rate() == 0) return std::nullopt;
  const double sooner = std::log((here.ms / here.verdicts) / (there.ms / there.verdicts));
  const double more = std::log((there.tokens / there.verdicts) / (here.tokens / here.verdicts));
  const double chance = kSpread * kSpread * (1 / here.verdicts + 1 / there.verdicts);
  const double known = kUnlike * kUnlike / (kUnlike * kUnlike + chance);
  return Lead{sooner + known * more, std::sqrt(known * chance)};
}

bool ServerTrial::Lead::IsClear() const {
  return std::abs(log) > kSure * deviation;
}

// What is tried, so clearly that it need not be tried to the end.
bool ServerTrial::IsBehind() const {
  const std::optional<Lead> lead = LeadOfServer();
  return found_.verdicts > kArrival + kFew && lead && (lead->log > 0) != found_.at_server &&
         lead->IsClear();
}

// Whether the server's draft, of which nothing else is known yet, brings less than its target would alone.
bool ServerTrial::IsInVain(const CostModel& costs) const {
  return found_.at_server && found_.here.verdicts == 0 && found_.verdicts > kArrival + kFew &&
         found_.there.rate() * costs.recent_pass_ms() < 1;
}

void ServerTrial::Choose() {
  const std::optional<Lead> lead = LeadOfServer();
  const bool at_server = lead ? lead->log > kGainMin : !found_.at_server;
  if (!lead || !lead->IsClear()) return Begin(at_server, false, kSoon);
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
