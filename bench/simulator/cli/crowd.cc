// simulate crowd: text by second of the target's time, by sessions, of plain continuous batching.
#include <cstdint>
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

struct CrowdFlags {
  ScenarioFlags scenario;
  std::vector<uint32_t> sessions = {1, 4, 16, 64};
  std::vector<double> round_trips = {0, 10, 60};
};

// A GPU's passes, where rows are nearly free, and replies of a length that people read.
CrowdFlags Usual() {
  CrowdFlags flags;
  flags.scenario.target_time = "1:20,64:28";
  flags.scenario.stagger_ms = 7;
  flags.scenario.tokens = 300;
  return flags;
}

// The first of them is what the others are compared with.
std::vector<Contender> WaysOf(const ScenarioFlags& flags) {
  std::vector<Contender> ways;
  for (Contender& contender : ContendersOf(flags)) {
    for (const char* name : {kTargetAlone, kServersDraft, kOurs, kAuto}) {
      if (contender.name == name) ways.push_back(std::move(contender));
    }
  }
  return ways;
}

// Of every way, for one number of sessions at one distance.
absl::Status AddRows(const ScenarioFlags& flags, std::vector<std::vector<std::string>>& rows) {
  double plain = 0;
  for (const Contender& way : WaysOf(flags)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(way.flags));
    if (way.name == kTargetAlone) plain = figures.tokens_per_target_second;
    rows.push_back({Concat(flags.sessions), Fixed(flags.rtt_ms, 0), way.name,
                    Fixed(figures.tokens_per_target_second, 1),
                    Fixed(figures.tokens_per_target_second / plain, 2), Fixed(figures.token_ms, 1),
                    Fixed(figures.token_ms_p95, 1), Fixed(figures.rows_per_token, 2),
                    Fixed(100 * figures.target_busy, 0), Fixed(figures.fairness, 3)});
  }
  return absl::OkStatus();
}

absl::Status PrintCrowds(const CrowdFlags& flags) {
  std::vector<std::vector<std::string>> rows = {{"sessions", "RTT", "way", "tokens a busy second",
                                                 "of plain", "ms/token", "p95", "rows/token",
                                                 "busy %", "fairness"}};
  for (const uint32_t sessions : flags.sessions) {
    for (const double round_trip : flags.round_trips) {
      ScenarioFlags scenario = flags.scenario;
      scenario.sessions = sessions;
      scenario.rtt_ms = round_trip;
      OUTRIDER_RETURN_IF_ERROR(AddRows(scenario, rows));
      std::fprintf(stderr, "\rsimulate crowd: %u sessions, round trip %.0f ms\033[K", sessions,
                   round_trip);
    }
  }
  std::fputs("\r\033[K", stderr);
  std::fputs(Table(rows).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddCrowdCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand(
      "crowd",
      "Many sessions at one target: the text of each busy second of it, of what plain continuous "
      "batching of the target alone writes");
  auto flags = std::make_shared<CrowdFlags>(Usual());
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->capture_default_str();
  };
  add("--sessions", flags->sessions, "How many at a time")->delimiter(',');
  add("--rtt", flags->round_trips, "Round trips, ms")->delimiter(',');
  add("--target", flags->scenario.target_time, "What a run takes, as of simulate run");
  add("--draft", flags->scenario.draft, "How good the drafts are, as of simulate run");
  add("--draft-time", flags->scenario.draft_time, "What a batch takes, as of simulate run");
  command->add_flag("--one-draft-processor", flags->scenario.one_draft_processor,
                    "As of simulate run");
  add("--draft-stalls", flags->scenario.draft_stalls, "As of simulate run");
  add("--stagger", flags->scenario.stagger_ms, "Milliseconds from one session's start to the next");
  add("--tokens", flags->scenario.tokens, "Of a reply");
  add("--seed", flags->scenario.seed, "The same does the same");
  command->callback([flags, &chosen] { chosen = [flags] { return PrintCrowds(*flags); }; });
}

}  // namespace outrider
