// outrider-adapters calibrate-exits: how far each exit is to be believed, from what it guesses.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/calibration/exit_calibration.h"
#include "adapters/calibration/ranking.h"
#include "adapters/cli/command.h"
#include "adapters/cli/rehearsal_flags.h"
#include "common/base/atomic_file.h"
#include "common/base/status.h"

namespace outrider {
namespace {

struct Flags {
  RehearsalFlags rehearsal;
  std::string out;
};

// What it is worth, on the passes it was made of.
void Print(const GuessLog& log, uint32_t exit, uint32_t layer, const char* mode,
           const ExitCalibration& calibration) {
  std::vector<double> before;
  std::vector<double> after;
  std::vector<uint8_t> outcomes;
  double right = 0;
  for (const GuessLog::Guess& guess : log.guesses()) {
    if (guess.exit != exit) continue;
    const ExitEvidence plain = log.EvidenceOf(guess, 1);
    const ExitEvidence evidence = log.EvidenceOf(guess, calibration.kappa);
    before.push_back(static_cast<double>(UncalibratedProbabilityOf(plain)));
    after.push_back(static_cast<double>(ProbabilityOf(evidence, calibration)));
    outcomes.push_back(guess.matches ? 1 : 0);
    right += guess.matches ? 1 : 0;
  }
  std::printf("%5u  %-7s  %6zu  %6.1f %%  %6.3f  %11.3f  %10.3f\n", layer, mode, outcomes.size(),
              100 * right / static_cast<double>(outcomes.size()),
              static_cast<double>(calibration.kappa), LogLoss(before, outcomes),
              LogLoss(after, outcomes));
}

absl::Status Calibrate(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(AtomicFile::Create(flags.out).status());  // before the work
  OUTRIDER_ASSIGN_OR_RETURN(const Rehearsed rehearsed, Rehearse(flags.rehearsal, kPassesToFit));
  TrainedExits exits = rehearsed.rehearsal->exits();
  std::printf("layer  mode     guesses     right   kappa  uncalibrated  calibrated (log loss)\n");
  for (uint32_t i = 0; i < exits.exits.size(); ++i) {
    TrainedExit& exit = exits.exits[i];
    exit.greedy = FitExit(rehearsed.greedy, i);
    Print(rehearsed.greedy, i, exit.layer, "greedy", *exit.greedy);
    exit.sampled = FitExit(rehearsed.sampled, i);
    Print(rehearsed.sampled, i, exit.layer, "sampled", *exit.sampled);
  }
  return WriteExits(exits, flags.out);
}

}  // namespace

void AddCalibrateExitsCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "calibrate-exits", "Learn how far a target's exits are to be believed, and write it down");
  command->footer(
      "The target writes on from places in the texts, greedily and sampled, while the draft "
      "proposes\nand the exits guess. What they guess and what comes of it makes the calibration "
      "in --out,\na copy of --exits. The texts are to be others than the exits were trained on.\n"
      "  outrider-adapters calibrate-exits --target target.gguf --draft draft.gguf \\\n"
      "      --exits trained.exits.gguf books.txt.gz --out target.exits.gguf");
  AddRehearsalFlags(*command, flags->rehearsal);
  command->add_option("--out", flags->out, "Where to write the calibrated exits")
      ->required()
      ->envname("OUTRIDER_OUT");
  command->callback([flags, &chosen] { chosen = [flags] { return Calibrate(*flags); }; });
}

}  // namespace outrider
