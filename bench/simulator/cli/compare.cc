// simulate compare: policies and baselines side by side.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/contenders.h"
#include "bench/simulator/figures.h"
#include "common/base/status.h"

namespace outrider {
namespace {

absl::Status Compare(const ScenarioFlags& flags) {
  std::vector<std::vector<std::string>> rows = {
      {"", "ms/token", "p95", "passes/token", "rows/pass", "ready %", "sent/token", "B up/token"}};
  for (const Contender& contender : ContendersOf(flags)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(contender.flags));
    rows.push_back({contender.name, Decimals(figures.token_ms, 2),
                    Decimals(figures.token_ms_p95, 1), Decimals(figures.passes_per_token, 3),
                    Decimals(figures.rows_per_pass, 1), Decimals(100 * figures.ready_share, 1),
                    Decimals(figures.sent_per_token, 2), Decimals(figures.bytes_up_per_token, 1)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddCompareCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand("compare", "Policies and baselines, side by side");
  auto flags = std::make_shared<ScenarioFlags>();
  flags->AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return Compare(*flags); }; });
}

}  // namespace outrider
