// What exits are worth: how often the outcome they guess is the verdict, how far they are to be
// believed, and whether that puts the right guesses first. By layer, and for all together, as a
// queue of hints holds them.
//
// Two priorities are compared: the calibrated probability, and the largest softmax by which the
// papers rank hints (FSD, Fig. 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/calibration/guess_log.h"
#include "adapters/calibration/ranking.h"
#include "common/drawing/chart.h"
#include "common/formats/models/exits_file.h"

namespace outrider {

inline constexpr size_t kReliabilityBins = 10;

struct PriorityFigures {
  double mean;
  double error;                // expected calibration error, over kReliabilityBins
  std::optional<double> area;  // under the curve: how well it ranks; none where all were right
  std::vector<ReliabilityBin> bins;
};

struct ExitFigures {
  std::optional<uint32_t> layer;  // none: all exits together
  double depth;                   // share of the layers; 1 for all together
  size_t guess_count;
  double match_rate;       // the outcome is the verdict
  double root_match_rate;  // the first choice is the target's
  PriorityFigures calibrated;
  PriorityFigures softmax;
  double cost;  // time, as a share of a pass without exits
};

struct ModeFigures {
  std::string mode;  // "greedy", "sampled"
  size_t pass_count;
  std::vector<ExitFigures> exits;  // by layer, and at last all together
};

// `costs`: of each exit.
ModeFigures Evaluate(const std::string& mode, const GuessLog& log, const TrainedExits& exits,
                     std::span<const double> costs);

std::string ToTable(const ModeFigures& figures);
std::string ToCsv(std::span<const ModeFigures> modes);
Chart MatchesByLayer(std::span<const ModeFigures> modes, const std::string& model);
Chart ReliabilityDiagram(std::span<const ModeFigures> modes, const std::string& model);

}  // namespace outrider
