// simulate exits: what hints save, by target, link, draft, the orders of hints on either side, and how
// many batches the device drafts at a time.
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

// About as right as those of the demonstration target.
constexpr const char* kSyntheticExits = "0.5:0.4,0.625:0.5,0.75:0.65,0.875:0.8";

struct ExitsFlags {
  ScenarioFlags scenario;
  std::vector<std::string> traces;
  std::vector<double> targets_ms = {20, 50, 200};
  std::vector<double> round_trips_ms = {20, 60};
  std::vector<double> drafts_ms = {1, 10};
};

// Of all recordings together: the time of all their tokens. Without any, of synthetic ones.
absl::StatusOr<double> TokenMs(ScenarioFlags flags, const std::vector<std::string>& traces) {
  if (traces.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(flags));
    return figures.token_ms;
  }
  double ms = 0;
  double tokens = 0;
  for (const std::string& trace : traces) {
    flags.trace = trace;
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(flags));
    ms += figures.token_ms * static_cast<double>(figures.tokens);
    tokens += static_cast<double>(figures.tokens);
  }
  return ms / tokens;
}

// A way to use hints: where it differs from the scenario.
struct Way {
  std::string name;
  std::string exit_order;
  std::string hint_order;
  uint32_t workers;
};

std::vector<Way> WaysOf(const ScenarioFlags& flags) {
  std::vector<Way> ways;
  for (const char* const order : {"newest", "probability", "arrival", "random"}) {
    ways.push_back({Concat("device ", order), "probability", order, flags.draft_workers});
  }
  for (const char* const order : {"softmax", "arrival", "random"}) {
    ways.push_back({Concat("server ", order), order, "probability", flags.draft_workers});
  }
  for (const uint32_t workers : {2, 4, 10}) {
    ways.push_back({Concat(workers, " workers"), flags.exit_order, flags.hint_order, workers});
  }
  return ways;
}

// Each against a blind device with as many workers: what is not the hints' is not counted as theirs.
absl::StatusOr<std::vector<std::string>> RowOf(ScenarioFlags flags,
                                               const std::vector<std::string>& traces) {
  std::vector<std::string> row;
  flags.blind = true;
  OUTRIDER_ASSIGN_OR_RETURN(const double blind_ms, TokenMs(flags, traces));
  row.push_back(Fixed(blind_ms, 2));
  for (const Way& way : WaysOf(flags)) {
    ScenarioFlags with = flags;
    with.draft_workers = way.workers;
    double without_ms = blind_ms;
    if (way.workers != flags.draft_workers) {
      OUTRIDER_ASSIGN_OR_RETURN(without_ms, TokenMs(with, traces));
    }
    with.blind = false;
    with.exit_order = way.exit_order;
    with.hint_order = way.hint_order;
    OUTRIDER_ASSIGN_OR_RETURN(const double with_ms, TokenMs(with, traces));
    row.push_back(Fixed(100 * (1 - with_ms / without_ms), 1));
  }
  return row;
}

absl::Status StudyExits(const ExitsFlags& flags) {
  std::vector<std::vector<std::string>> rows = {{"pass, round trip, batch (ms)", "blind, ms"}};
  for (const Way& way : WaysOf(flags.scenario)) rows[0].push_back(way.name);
  for (const double target : flags.targets_ms) {
    for (const double round_trip : flags.round_trips_ms) {
      for (const double draft : flags.drafts_ms) {
        ScenarioFlags scenario = flags.scenario;
        scenario.target_time = Concat("gpu:", Fixed(target, 0));
        scenario.rtt_ms = round_trip;
        scenario.draft_time = Concat("draft:", Fixed(draft, 0));
        OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::string> row, RowOf(scenario, flags.traces));
        row.insert(row.begin(),
                   Concat(Fixed(target, 0), ", ", Fixed(round_trip, 0), ", ", Fixed(draft, 0)));
        rows.push_back(std::move(row));
      }
    }
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::fputs(
      "What hints save of a token's time, in per cent. Exits of a pass speak one after the other: "
      "an "
      "order of\nthe server's tells only where hints wait for the link (--rate), and with exits "
      "that "
      "claim more the\ndeeper they are the newest hint is the most probable one\n",
      stdout);
  return absl::OkStatus();
}

}  // namespace

void AddExitsCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command =
      app.add_subcommand("exits", "What hints save, by the orders of hints and draft workers");
  auto flags = std::make_shared<ExitsFlags>();
  flags->scenario.exits = kSyntheticExits;
  command
      ->add_option("--traces", flags->traces,
                   "Recordings with exits; all are run. None: what --draft and --exits say")
      ->delimiter(',');
  command->add_option("--targets", flags->targets_ms, "Times of a pass, ms")->delimiter(',');
  command->add_option("--round-trips", flags->round_trips_ms, "Of the link, ms")->delimiter(',');
  command->add_option("--drafts", flags->drafts_ms, "Times of a batch of one, ms")->delimiter(',');
  flags->scenario.AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return StudyExits(*flags); }; });
}

}  // namespace outrider
