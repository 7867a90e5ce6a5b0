// simulate regret: the controller against every fixed choice, over a grid of places and shifts.
#include "bench/simulator/studies/regret.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/cli/points.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

struct RegretFlags {
  std::vector<double> round_trips = {0, 20, 60, 120, 300};
  std::vector<double> passes = {5, 20, 50, 100};
  std::vector<double> acceptances = {0.5, 0.7, 0.85, 0.95};
  std::vector<double> drafts = {1, 3, 5, 10};
  uint32_t random = 200;
  uint32_t tokens = 1500;
  double above_percent = 5;
  uint32_t threads = ProcessorCount();
};

std::vector<Conditions> Grid(const RegretFlags& flags) {
  std::vector<Conditions> grid;
  for (const double draft : flags.drafts) {
    for (const double round_trip : flags.round_trips) {
      for (const double pass : flags.passes) {
        for (const double acceptance : flags.acceptances) {
          grid.push_back({round_trip, pass, acceptance, draft});
        }
      }
    }
  }
  return grid;
}

absl::StatusOr<std::vector<Regret>> RegretsAt(const RegretFlags& flags, std::string_view title,
                                              std::span<const Conditions> points, Shift shift) {
  std::vector<Regret> regrets(points.size());
  OUTRIDER_RETURN_IF_ERROR(ForEachPoint(
      Concat("simulate regret, ", title), points.size(), flags.threads,
      [&](size_t i) -> absl::Status {
        OUTRIDER_ASSIGN_OR_RETURN(
            regrets[i], SettledRegretAt(points[i], shift, flags.tokens, flags.above_percent / 100));
        return absl::OkStatus();
      }));
  return regrets;
}

// Runs all, and prints those that were worse than is asked for until they were run at length.
absl::Status PrintPoints(const RegretFlags& flags, std::string_view title,
                         std::span<const Conditions> points, Shift shift) {
  std::vector<std::vector<std::string>> rows = {
      {"RTT", "T_q", "right", "draft", "auto", "best", "", "%", "% at first"}};
  double sum = 0;
  double worst = 0;
  uint32_t above = 0;
  const double bound = flags.above_percent / 100;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Regret> regrets,
                            RegretsAt(flags, title, points, shift));
  for (size_t i = 0; i < points.size(); ++i) {
    const Conditions& met = points[i];
    const Regret& regret = regrets[i];
    sum += regret.value();
    worst = std::max(worst, regret.value());
    above += regret.value() > bound ? 1 : 0;
    if (!regret.at_first) continue;
    rows.push_back({Fixed(met.round_trip_ms, 1), Fixed(met.pass_ms, 1), Fixed(met.acceptance, 2),
                    Fixed(met.draft_ms, 1), Fixed(regret.controlled_ms, 2),
                    Fixed(regret.best_ms, 2), std::string(regret.best),
                    Fixed(100 * regret.value(), 1), Fixed(100 * *regret.at_first, 1)});
  }
  std::printf("%s: %zu points, mean %.1f %%, worst %.1f %%; above %.1f %%: %u\n",
              std::string(title).c_str(), points.size(),
              100 * sum / static_cast<double>(points.size()), 100 * worst, flags.above_percent,
              above);
  if (rows.size() > 1) std::fputs(Table(rows).c_str(), stdout);
  std::fputs("\n", stdout);
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status PrintRegrets(const RegretFlags& flags) {
  const std::vector<Conditions> grid = Grid(flags);
  for (const Shift shift : kShifts) {
    OUTRIDER_RETURN_IF_ERROR(PrintPoints(flags, NameOf(shift), grid, shift));
  }
  if (flags.random == 0) return absl::OkStatus();
  return PrintPoints(flags, "between the grid's points", RandomConditions(flags.random),
                     Shift::kNone);
}

}  // namespace

void AddRegretCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand(
      "regret", "The controller (policy auto) against the best fixed choice, after 20 verdicts");
  auto flags = std::make_shared<RegretFlags>();
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->capture_default_str();
  };
  add("--rtt", flags->round_trips, "Round trips, ms")->delimiter(',');
  add("--target", flags->passes, "Times of a pass, ms")->delimiter(',');
  add("--right", flags->acceptances, "How often the draft's first guess is right")->delimiter(',');
  add("--draft-time", flags->drafts, "Times of a batch, ms")->delimiter(',');
  add("--random", flags->random, "Points between the grid's, where nothing changes");
  add("--above", flags->above_percent,
      "Points that are worse than so many percent are run again, at length, and printed");
  add("--tokens", flags->tokens, "Of a reply; what shifts does so half-way");
  add("--threads", flags->threads, "Points that are run at a time")->check(AboveZero());
  command->callback([flags, &chosen] { chosen = [flags] { return PrintRegrets(*flags); }; });
}

}  // namespace outrider
