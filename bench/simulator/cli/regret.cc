// simulate regret: the controller against every fixed choice, over a grid of places and shifts.
#include "bench/simulator/studies/regret.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

struct RegretFlags {
  std::vector<double> round_trips = {0, 20, 60, 120, 300};
  std::vector<double> passes = {5, 20, 50, 100};
  std::vector<double> acceptances = {0.5, 0.7, 0.85, 0.95};
  double draft_ms = 1;
  uint32_t tokens = 1500;
};

absl::Status PrintShift(const RegretFlags& flags, Shift shift) {
  std::vector<std::vector<std::string>> rows = {{"RTT", "T_q", "right", "auto", "best", "", "%"}};
  double sum = 0;
  double worst = 0;
  for (const double round_trip : flags.round_trips) {
    for (const double pass : flags.passes) {
      for (const double acceptance : flags.acceptances) {
        OUTRIDER_ASSIGN_OR_RETURN(
            const Regret regret,
            RegretAt({round_trip, pass, acceptance, flags.draft_ms}, shift, flags.tokens));
        rows.push_back({Fixed(round_trip, 0), Fixed(pass, 0), Fixed(acceptance, 2),
                        Fixed(regret.controlled_ms, 2), Fixed(regret.best_ms, 2),
                        std::string(regret.best), Fixed(100 * regret.value(), 1)});
        sum += regret.value();
        worst = std::max(worst, regret.value());
      }
    }
  }
  std::printf("%s\n%smean %.1f %%, worst %.1f %%\n\n", std::string(NameOf(shift)).c_str(),
              Table(rows).c_str(), 100 * sum / static_cast<double>(rows.size() - 1), 100 * worst);
  return absl::OkStatus();
}

absl::Status PrintRegrets(const RegretFlags& flags) {
  for (const Shift shift : kShifts) OUTRIDER_RETURN_IF_ERROR(PrintShift(flags, shift));
  return absl::OkStatus();
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
  add("--draft-time", flags->draft_ms, "Time of a batch, ms");
  add("--tokens", flags->tokens, "Of a reply; what shifts does so half-way");
  command->callback([flags, &chosen] { chosen = [flags] { return PrintRegrets(*flags); }; });
}

}  // namespace outrider
