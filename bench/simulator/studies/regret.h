// How much longer a token takes when a controller chooses, than with the best fixed choice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/world/scenario.h"

namespace outrider {

// What a session meets. The draft's first guess is right with `acceptance`, and its others are as those
// of a good draft (SkillLikeGood).
struct Conditions {
  double round_trip_ms = 60;
  double pass_ms = 20;
  double acceptance = 0.7;
  double draft_ms = 1;  // of a batch
};

// Anywhere in what the grid of `simulate regret` spans: round trips of 0 to 300 ms, passes of 5 to
// 100, batches of 1 to 10, drafts right in 0.5 to 0.95. The same ones every time.
std::vector<Conditions> RandomConditions(uint32_t count);

// What happens to it half-way through the reply.
enum class Shift { kNone, kRoundTripThreefold, kPassThreefold, kDraftWorse };
inline constexpr std::array kShifts = {Shift::kNone, Shift::kRoundTripThreefold,
                                       Shift::kPassThreefold, Shift::kDraftWorse};
std::string_view NameOf(Shift shift);

// Times of a token, from 20 verdicts after the beginning, or after the shift, to the end.
struct Regret {
  double controlled_ms = 0;
  double best_ms = 0;
  std::string_view best;           // of the fixed choices
  std::optional<double> at_first;  // what value() was with shorter replies

  double value() const { return controlled_ms / best_ms - 1; }
};

// Replies of `token_count` tokens by every fixed choice and by the controller. FailedPrecondition
// when one of them is not what the target writes alone.
absl::StatusOr<Regret> RegretAt(const Conditions& met, Shift shift, uint32_t token_count);

// The same, and where the controller is behind by more than `bound`, again with replies this many times
// as long. Where nearly all of the draft is right a verdict has a dozen tokens, and 1,500 of those are a
// hundred verdicts, whose mean deviates by a tenth: one point in a hundred seems to be behind by 5 %.
inline constexpr uint32_t kLonger = 10;
absl::StatusOr<Regret> SettledRegretAt(const Conditions& met, Shift shift, uint32_t token_count,
                                       double bound);

}  // namespace outrider
