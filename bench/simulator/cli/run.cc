// simulate run: one scenario, all figures.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/cli/scenario_flags.h"
#include "bench/simulator/studies/figures.h"
#include "bench/simulator/studies/lossless.h"
#include "bench/simulator/studies/shares.h"
#include "bench/simulator/studies/timeline.h"
#include "bench/simulator/world/journal.h"
#include "bench/simulator/world/simulation.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

struct RunFlags {
  ScenarioFlags scenario;
  bool log = false;
  std::string timeline;
  double timeline_from_ms = 0;
  double timeline_ms = 600;
  std::string shares;
  double window_ms = 500;
};

std::string SettingOf(const ScenarioFlags& flags) {
  return Concat("round trip ", Fixed(flags.rtt_ms, 0), " ms, a pass ", flags.target_time,
                " ms, a batch of the draft ", flags.draft_time, " ms, draft ", flags.draft);
}

absl::Status DrawTimeline(const Journal& journal, const Simulation& simulation,
                          const RunFlags& flags) {
  const ScenarioFlags& scenario = flags.scenario;
  return WriteFile(flags.timeline,
                   ToSvg(journal, {.device = 0,
                                   .zero = simulation.begin(),
                                   .from = Milliseconds(flags.timeline_from_ms),
                                   .length = Milliseconds(flags.timeline_ms),
                                   .title = Concat("A session in time: policy ", scenario.policy),
                                   .subtitle = SettingOf(scenario)}));
}

void Print(const Figures& figures) {
  std::fputs(Table({{"time per token", Fixed(figures.token_ms, 2), "ms"},
                    {"  of 95 % at most", Fixed(figures.token_ms_p95, 2), "ms"},
                    {"first token after", Fixed(figures.first_ms, 1), "ms"},
                    {"passes per token", Fixed(figures.passes_per_token, 3), ""},
                    {"passes per run", Fixed(figures.passes_per_run, 2), ""},
                    {"rows per pass", Fixed(figures.rows_per_pass, 1), ""},
                    {"rows per token", Fixed(figures.rows_per_token, 2), ""},
                    {"passes ready at once", Fixed(100 * figures.ready_share, 1), "%"},
                    {"passes hinted right", Fixed(100 * figures.hinted_share, 1), "%"},
                    {"drafted per token", Fixed(figures.expanded_per_token, 2), "nodes"},
                    {"sent per token", Fixed(figures.sent_per_token, 2), "nodes"},
                    {"  of them wasted", Fixed(100 * figures.wasted_share, 1), "%"},
                    {"bytes up per token", Fixed(figures.bytes_up_per_token, 1), "B"},
                    {"bytes down per token", Fixed(figures.bytes_down_per_token, 1), "B"},
                    {"target busy", Fixed(100 * figures.target_busy, 1), "%"},
                    {"tokens a busy second", Fixed(figures.tokens_per_target_second, 1), ""},
                    {"fairness", Fixed(figures.fairness, 3), ""}})
                 .c_str(),
             stdout);
}

void Print(const Shares& shares) {
  const auto percent = [](double share) { return Fixed(100 * share, 1); };
  std::vector<std::vector<std::string>> rows = {
      {"target's time, %", "fair", "usable", "mean", "least", "most", "longest wait, ms"}};
  for (const auto& all : {shares.keys, shares.sessions}) {
    for (const Shares::Of& one : all) {
      rows.push_back({one.name, percent(one.fair), one.usable > 0 ? percent(one.usable) : "",
                      percent(one.mean()), percent(one.least()), percent(one.most()),
                      Fixed(ToMilliseconds(one.longest_wait), 0)});
    }
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::vector<double> of_equal;
  std::vector<double> of_usable;
  for (const Shares::Of& key : shares.keys) {
    of_equal.push_back(key.mean() / key.fair);
    if (key.usable > 0) of_usable.push_back(key.mean() / key.usable);
  }
  std::printf("Jain's index of the target's time across keys, of equal parts: %.4f\n",
              JainIndex(of_equal));
  std::printf("  of what each can use with one pass a run of every session: %.4f\n",
              JainIndex(of_usable));
  std::printf("(of %zu windows of %.0f ms in which all were at work)\n",
              shares.keys.front().by_window.size(), ToMilliseconds(shares.window));
}

// By session and key, printed and, if asked for, drawn.
absl::Status ReportShares(Simulation& simulation, const RunFlags& flags) {
  const Shares shares = SharesOf(simulation, Milliseconds(flags.window_ms));
  Print(shares);
  if (flags.shares.empty()) return absl::OkStatus();
  if (shares.keys.front().by_window.empty()) {
    return absl::FailedPreconditionError(
        "there is no window in which all sessions were at work: give more --tokens or a smaller "
        "--window");
  }
  const char* const greed = flags.scenario.greedy.empty() ? "" : "; session 0 is greedy";
  return WriteFile(flags.shares, ToSvg(shares, SettingOf(flags.scenario) + greed));
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
  if (scenario.session_count > 1 || !flags.shares.empty())
    OUTRIDER_RETURN_IF_ERROR(ReportShares(simulation, flags));
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
  command->add_option("--shares", flags->shares,
                      "Draws whose the target's time is, window by window, to this file (SVG)");
  command->add_option("--window", flags->window_ms, "Of time, ms")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  flags->scenario.AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return Run(*flags); }; });
}

}  // namespace outrider
