// simulate compare: policies and baselines side by side.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/studies/contenders.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

// How often a verdict found its root grown, and thanks to whom; and what is lost without each.
absl::Status PrintThanks(const ScenarioFlags& flags) {
  std::vector<std::vector<std::string>> rows = {{"thanks to whom", "ms/token", "p95", "rows/token",
                                                 "longer %", "roots grown %", "by the draft",
                                                 "and confirmed", "after a hint"}};
  double ours_ms = 0;
  for (const Contender& ablation : AblationsOf(flags)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(ablation.flags));
    if (ablation.name == kOurs) ours_ms = figures.token_ms;
    const double grown = figures.grown_by_draft + figures.grown_by_both + figures.grown_by_hint;
    rows.push_back({ablation.name, Fixed(figures.token_ms, 2), Fixed(figures.token_ms_p95, 1),
                    Fixed(figures.rows_per_token, 2),
                    Fixed(100 * (figures.token_ms / ours_ms - 1), 1), Fixed(100 * grown, 1),
                    Fixed(100 * figures.grown_by_draft, 1), Fixed(100 * figures.grown_by_both, 1),
                    Fixed(100 * figures.grown_by_hint, 1)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Compare(const ScenarioFlags& flags) {
  std::vector<std::vector<std::string>> rows = {{"", "ms/token", "p95", "passes/token", "rows/pass",
                                                 "rows/token", "ready %", "sent/token",
                                                 "B up/token"}};
  for (const Contender& contender : ContendersOf(flags)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(contender.flags));
    rows.push_back({contender.name, Fixed(figures.token_ms, 2), Fixed(figures.token_ms_p95, 1),
                    Fixed(figures.passes_per_token, 3), Fixed(figures.rows_per_pass, 1),
                    Fixed(figures.rows_per_token, 2), Fixed(100 * figures.ready_share, 1),
                    Fixed(figures.sent_per_token, 2), Fixed(figures.bytes_up_per_token, 1)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::fputs("\n", stdout);
  return PrintThanks(flags);
}

}  // namespace

void AddCompareCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand("compare", "Policies and baselines, side by side");
  auto flags = std::make_shared<ScenarioFlags>();
  flags->AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return Compare(*flags); }; });
}

}  // namespace outrider
