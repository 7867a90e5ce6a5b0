// outrider-adapters evaluate-exits: how often exits are right, how well they know it, what they
// cost.
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/calibration/evaluation.h"
#include "adapters/cli/command.h"
#include "adapters/cli/rehearsal_flags.h"
#include "common/base/atomic_file.h"
#include "common/base/status.h"
#include "common/drawing/chart.h"

namespace outrider {
namespace {

// Twenty for each bin of the reliability.
constexpr size_t kPassesToEvaluate = 20 * kReliabilityBins;

struct Flags {
  RehearsalFlags rehearsal;
  std::string csv;
  std::string layers_svg;
  std::string reliability_svg;
};

// Nothing where no path was given.
absl::Status WriteFile(const std::string& path, std::string_view text) {
  return path.empty() ? absl::OkStatus() : WriteAtomically(path, text);
}

// Before the work, not after it.
absl::Status CheckOutputs(const Flags& flags) {
  for (const std::string& path : {flags.csv, flags.layers_svg, flags.reliability_svg}) {
    if (!path.empty()) OUTRIDER_RETURN_IF_ERROR(AtomicFile::Create(path).status());
  }
  return absl::OkStatus();
}

// Of each exit, as a share of what passes take without any.
std::vector<double> CostsOf(const Rehearsal& rehearsal) {
  const std::span<const double> exits = rehearsal.exit_seconds();
  const double alone = rehearsal.pass_seconds() - std::accumulate(exits.begin(), exits.end(), 0.0);
  std::vector<double> costs;
  for (const double seconds : exits) costs.push_back(seconds / alone);
  return costs;
}

void PrintUncalibrated(const TrainedExits& exits) {
  for (const TrainedExit& exit : exits.exits) {
    if (exit.greedy && exit.sampled) continue;
    std::printf("The exit after layer %u is not calibrated%s: its own doubt stands in.\n",
                exit.layer,
                exit.greedy    ? " for sampled text"
                : exit.sampled ? " for greedy text"
                               : "");
  }
}

absl::Status Evaluate(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(CheckOutputs(flags));
  OUTRIDER_ASSIGN_OR_RETURN(const Rehearsed rehearsed,
                            Rehearse(flags.rehearsal, kPassesToEvaluate));
  const TrainedExits& exits = rehearsed.rehearsal->exits();
  const std::vector<double> costs = CostsOf(*rehearsed.rehearsal);
  const std::vector<ModeFigures> modes = {Evaluate("greedy", rehearsed.greedy, exits, costs),
                                          Evaluate("sampled", rehearsed.sampled, exits, costs)};
  for (const ModeFigures& mode : modes) std::printf("%s\n", ToTable(mode).c_str());
  std::printf(
      "ECE over %zu bins of equal counts. Cost: time, as a share of a pass without exits.\n",
      kReliabilityBins);
  PrintUncalibrated(exits);
  OUTRIDER_RETURN_IF_ERROR(WriteFile(flags.csv, ToCsv(modes)));
  OUTRIDER_RETURN_IF_ERROR(
      WriteFile(flags.layers_svg, ToSvg(MatchesByLayer(modes, exits.target.name))));
  return WriteFile(flags.reliability_svg, ToSvg(ReliabilityDiagram(modes, exits.target.name)));
}

}  // namespace

void AddEvaluateExitsCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "evaluate-exits", "Measure how often exits are right, how well they know it, what they cost");
  command->footer(
      "As calibrate-exits, on texts that exits were neither trained nor calibrated on. For every\n"
      "exit and for all together: how often the outcome it guesses is the verdict, and its first\n"
      "token the target's; the mean of its calibrated probability and of its largest softmax, by\n"
      "which the papers rank hints; how far each is from coming true (ECE), and how well it puts\n"
      "right guesses before wrong ones (AUC: 1 always, 0.5 by chance).\n"
      "  outrider-adapters evaluate-exits --target target.gguf --draft draft.gguf \\\n"
      "      --exits target.exits.gguf other_books.txt.gz --csv exits.csv");
  AddRehearsalFlags(*command, flags->rehearsal);
  command->add_option("--csv", flags->csv, "Where to write the table")->envname("OUTRIDER_CSV");
  command
      ->add_option("--layers-svg", flags->layers_svg,
                   "Where to draw match rate and confidence by layer")
      ->envname("OUTRIDER_LAYERS_SVG");
  command
      ->add_option("--reliability-svg", flags->reliability_svg,
                   "Where to draw how often guesses are right, by how sure the exit is")
      ->envname("OUTRIDER_RELIABILITY_SVG");
  command->callback([flags, &chosen] { chosen = [flags] { return Evaluate(*flags); }; });
}

}  // namespace outrider
