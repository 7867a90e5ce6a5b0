// simulate compare: policies and baselines side by side.
#include <algorithm>
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

// Replies with a draft that is right by chance, which has to even out; of a recording there is one.
constexpr uint32_t kIndependentReplies = 8;

absl::StatusOr<double> MeanTokenMs(ScenarioFlags flags) {
  double sum = 0;
  for (uint32_t reply = 0; reply < kIndependentReplies; ++reply, ++flags.seed) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(flags));
    sum += figures.token_ms;
  }
  return sum / kIndependentReplies;
}

// What it does that a recorded draft is right in stretches. Of drafts alone: an exit has to be right about
// whole outcomes, of which a recording does not tell how often it is.
absl::Status PrintBesideIndependent(const ScenarioFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Trace recording, Trace::Read(flags.trace));
  ScenarioFlags recorded = flags;
  recorded.blind = true;
  // What follows is right by chance, too.
  recorded.tokens = std::min(flags.tokens, static_cast<uint32_t>(recording.place_count()));
  std::vector<std::vector<std::string>> rows = {
      {"as often right, no hints", "recorded ms/token", "independent", "recorded longer %"}};
  for (const Contender& contender : ContendersOf(recorded)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(contender.flags));
    OUTRIDER_ASSIGN_OR_RETURN(const double independent_ms,
                              MeanTokenMs(Independent(contender.flags, recording)));
    rows.push_back({contender.name, Fixed(figures.token_ms, 2), Fixed(independent_ms, 2),
                    Fixed(100 * (figures.token_ms / independent_ms - 1), 1)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::fputs("\n", stdout);
  return absl::OkStatus();
}

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
  if (!flags.trace.empty()) OUTRIDER_RETURN_IF_ERROR(PrintBesideIndependent(flags));
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
