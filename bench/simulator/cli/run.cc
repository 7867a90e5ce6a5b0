// simulate run: one scenario, all figures.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/figures.h"
#include "bench/simulator/journal.h"
#include "bench/simulator/lossless.h"
#include "bench/simulator/scenario_flags.h"
#include "bench/simulator/simulation.h"
#include "bench/simulator/timeline.h"
#include "common/base/status.h"

namespace outrider {
namespace {

struct RunFlags {
  ScenarioFlags scenario;
  bool log = false;
  std::string timeline;
  double timeline_from_ms = 0;
  double timeline_ms = 600;
};

absl::Status DrawTimeline(const Journal& journal, const Simulation& simulation,
                          const RunFlags& flags) {
  const ScenarioFlags& scenario = flags.scenario;
  return WriteFile(
      flags.timeline,
      ToSvg(journal,
            {.device = 0,
             .begin = simulation.begin() + Milliseconds(flags.timeline_from_ms),
             .length = Milliseconds(flags.timeline_ms),
             .title = Concat(scenario.policy, ", round trip ", Decimals(scenario.rtt_ms, 0), " ms"),
             .subtitle = Concat("target ", scenario.target_ms, " ms, draft ", scenario.draft_ms,
                                " ms a batch, right ", scenario.draft)}));
}

void Print(const Figures& figures) {
  std::fputs(Table({{"time per token", Decimals(figures.token_ms, 2), "ms"},
                    {"  of 95 % at most", Decimals(figures.token_ms_p95, 2), "ms"},
                    {"first token after", Decimals(figures.first_ms, 1), "ms"},
                    {"passes per token", Decimals(figures.passes_per_token, 3), ""},
                    {"rows per pass", Decimals(figures.rows_per_pass, 1), ""},
                    {"passes ready at once", Decimals(100 * figures.ready_share, 1), "%"},
                    {"passes hinted right", Decimals(100 * figures.hinted_share, 1), "%"},
                    {"drafted per token", Decimals(figures.expanded_per_token, 2), "nodes"},
                    {"sent per token", Decimals(figures.sent_per_token, 2), "nodes"},
                    {"  of them wasted", Decimals(100 * figures.wasted_share, 1), "%"},
                    {"bytes up per token", Decimals(figures.bytes_up_per_token, 1), "B"},
                    {"bytes down per token", Decimals(figures.bytes_down_per_token, 1), "B"},
                    {"target busy", Decimals(100 * figures.target_busy, 1), "%"},
                    {"fairness", Decimals(figures.fairness, 3), ""}})
                 .c_str(),
             stdout);
}

absl::Status Run(const RunFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<World> world, flags.scenario.ToWorld());
  OUTRIDER_ASSIGN_OR_RETURN(const Scenario scenario, flags.scenario.ToScenario());
  Journal journal;
  const bool is_noted = flags.log || !flags.timeline.empty();
  const auto begin = std::chrono::steady_clock::now();
  Simulation simulation(*world, scenario, is_noted ? &journal : nullptr);
  const bool is_done = simulation.Run();
  const std::chrono::duration<double, std::milli> real = std::chrono::steady_clock::now() - begin;
  if (flags.log) std::fputs(journal.ToText(simulation.begin()).c_str(), stdout);
  if (!is_done) return absl::DeadlineExceededError("a day has passed, and no end is near");
  OUTRIDER_RETURN_IF_ERROR(CheckTexts(simulation));
  const Figures figures = FiguresOf(simulation);
  Print(figures);
  std::printf("%llu tokens, the same as the target's alone; simulated in %.1f ms, %llu events\n",
              static_cast<unsigned long long>(figures.tokens), real.count(),
              static_cast<unsigned long long>(simulation.events().run_count()));
  return flags.timeline.empty() ? absl::OkStatus() : DrawTimeline(journal, simulation, flags);
}

}  // namespace

void AddRunCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand("run", "One scenario, all figures");
  auto flags = std::make_shared<RunFlags>();
  command->add_flag("--log", flags->log, "Prints what happens, message by message");
  command->add_option("--timeline", flags->timeline, "Draws what happens to this file (SVG)");
  command->add_option("--timeline-from", flags->timeline_from_ms, "From when, ms")
      ->capture_default_str();
  command->add_option("--timeline-length", flags->timeline_ms, "How long, ms")
      ->capture_default_str();
  flags->scenario.AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return Run(*flags); }; });
}

}  // namespace outrider
