#include "bench/simulator/studies/hindsight.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "bench/simulator/studies/contenders.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kLonger = 4;

// What is behind by so much after a quarter of the replies is not the best after all of them.
constexpr double kBehind = 0.1;

struct Entrant {
  Contender way;
  double ms = 0;  // sum of its replies' times of a token
};

void LeaveOutLaggards(std::vector<Entrant>& entrants) {
  const double best_ms = std::ranges::min_element(entrants, {}, &Entrant::ms)->ms;
  std::erase_if(entrants, [&](const Entrant& one) { return one.ms > (1 + kBehind) * best_ms; });
}

// By replies 1 to `reply_count`.
absl::StatusOr<Contender> BestOf(const World& world, std::vector<Contender> ways,
                                 uint32_t reply_count) {
  std::vector<Entrant> entrants;
  for (Contender& way : ways) entrants.push_back({std::move(way)});
  for (uint32_t reply = 1; reply <= reply_count; ++reply) {
    for (Entrant& entrant : entrants) {
      entrant.way.flags.seed = reply;
      OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(world, entrant.way.flags));
      entrant.ms += figures.token_ms;
    }
    if (4 * reply >= reply_count) LeaveOutLaggards(entrants);
  }
  return std::ranges::min_element(entrants, {}, &Entrant::ms)->way;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of their mean.
double StandardError(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double count = static_cast<double>(values.size());
  return std::sqrt(squares / (count * (count - 1)));
}

// By replies `first`, `first` + 1 and so on. Both have the same places where the draft is right.
absl::StatusOr<Hindsight> Compare(const World& world, Contender best, ScenarioFlags by_auto,
                                  uint32_t first, uint32_t reply_count) {
  std::vector<double> best_ms;
  std::vector<double> behind_ms;
  for (uint32_t reply = first; reply < first + reply_count; ++reply) {
    best.flags.seed = by_auto.seed = reply;
    OUTRIDER_ASSIGN_OR_RETURN(const Figures of_best, Measure(world, best.flags));
    OUTRIDER_ASSIGN_OR_RETURN(const Figures of_auto, Measure(world, by_auto));
    best_ms.push_back(of_best.token_ms);
    behind_ms.push_back(of_auto.token_ms - of_best.token_ms);
  }
  const double mean_ms = MeanOf(best_ms);
  return Hindsight{best.name, mean_ms, mean_ms + MeanOf(behind_ms),
                   StandardError(behind_ms) / mean_ms};
}

}  // namespace

absl::StatusOr<Hindsight> InHindsight(const ScenarioFlags& met, uint32_t reply_count,
                                      double bound) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<World> world, met.ToWorld());
  ScenarioFlags by_auto = met;
  by_auto.policy = kAuto;
  OUTRIDER_ASSIGN_OR_RETURN(const Contender best, BestOf(*world, FixedWaysOf(met), reply_count));
  const uint32_t chosen_by = reply_count;
  OUTRIDER_ASSIGN_OR_RETURN(const Hindsight compared,
                            Compare(*world, best, by_auto, chosen_by + 1, reply_count));
  if (compared.regret() <= bound) return compared;
  return Compare(*world, best, by_auto, chosen_by + reply_count + 1, kLonger * reply_count);
}

}  // namespace outrider
