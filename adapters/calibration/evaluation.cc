#include "adapters/calibration/evaluation.h"

#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

// Wide enough for the heads of ToTable().
constexpr size_t kColumn = 9;

PriorityFigures FiguresOf(std::span<const double> priorities, std::span<const uint8_t> outcomes) {
  PriorityFigures figures{};
  const double sum = std::accumulate(priorities.begin(), priorities.end(), 0.0);
  figures.mean = priorities.empty() ? 0 : sum / static_cast<double>(priorities.size());
  figures.bins = Reliability(priorities, outcomes, kReliabilityBins);
  figures.error = ExpectedCalibrationError(figures.bins);
  figures.area = AreaUnderCurve(priorities, outcomes);
  return figures;
}

// Of one exit, or of all.
ExitFigures Count(const GuessLog& log, std::optional<uint32_t> exit) {
  std::vector<double> probabilities;
  std::vector<double> softmaxes;
  std::vector<uint8_t> outcomes;
  double matches = 0;
  double root_matches = 0;
  for (const GuessLog::Guess& guess : log.guesses()) {
    if (exit && guess.exit != *exit) continue;
    probabilities.push_back(static_cast<double>(guess.probability));
    softmaxes.push_back(static_cast<double>(guess.evidence.largest_softmax));
    outcomes.push_back(guess.matches ? 1 : 0);
    matches += guess.matches ? 1 : 0;
    root_matches += guess.matches_at_root ? 1 : 0;
  }
  ExitFigures figures{};
  figures.guess_count = outcomes.size();
  if (outcomes.empty()) return figures;
  figures.match_rate = matches / static_cast<double>(outcomes.size());
  figures.root_match_rate = root_matches / static_cast<double>(outcomes.size());
  figures.calibrated = FiguresOf(probabilities, outcomes);
  figures.softmax = FiguresOf(softmaxes, outcomes);
  return figures;
}

std::string Percent(double share) {
  return Fixed(100 * share, 1) + " %";
}

std::string AreaText(const PriorityFigures& figures) {
  return figures.area ? Fixed(*figures.area, 3) : "-";
}

void AppendRow(std::span<const std::string> cells, std::string& table) {
  for (const std::string& cell : cells) {
    table += std::string(cell.size() < kColumn ? kColumn - cell.size() : 0, ' ') + cell;
  }
  table += '\n';
}

std::string NameOf(const ExitFigures& exit) {
  return exit.layer ? Concat(*exit.layer) : "all";
}

Chart::Line LineOf(const ModeFigures& mode, const std::string& name,
                   double (*value)(const ExitFigures&)) {
  Chart::Line line{.name = Concat(name, ", ", mode.mode), .points = {}};
  for (const ExitFigures& exit : mode.exits) {
    if (exit.layer) line.points.emplace_back(100 * exit.depth, 100 * value(exit));
  }
  return line;
}

Chart::Line LineOf(const ModeFigures& mode, const std::string& name,
                   const PriorityFigures& priority) {
  Chart::Line line{.name = Concat(name, ", ", mode.mode), .points = {}};
  for (const ReliabilityBin& bin : priority.bins) {
    line.points.emplace_back(bin.mean_probability, bin.share_true);
  }
  return line;
}

}  // namespace

ModeFigures Evaluate(const std::string& mode, const GuessLog& log, const TrainedExits& exits,
                     std::span<const double> costs) {
  ModeFigures figures{.mode = mode, .pass_count = log.pass_count(), .exits = {}};
  for (uint32_t i = 0; i < exits.exits.size(); ++i) {
    ExitFigures& exit = figures.exits.emplace_back(Count(log, i));
    exit.layer = exits.exits[i].layer;
    exit.depth = (1.0 + exits.exits[i].layer) / exits.target.layer_count;
    exit.cost = costs[i];
  }
  ExitFigures& all = figures.exits.emplace_back(Count(log, std::nullopt));
  all.depth = 1;
  all.cost = std::accumulate(costs.begin(), costs.end(), 0.0);
  return figures;
}

std::string ToTable(const ModeFigures& figures) {
  std::string table = Concat(figures.mode, ", ", figures.pass_count, " passes\n");
  AppendRow(std::vector<std::string>{"", "", "", "", "calib'd", "", "", "softmax", "", "", ""},
            table);
  AppendRow(std::vector<std::string>{"layer", "depth", "match", "at root", "mean", "ECE", "AUC",
                                     "mean", "ECE", "AUC", "cost"},
            table);
  for (const ExitFigures& exit : figures.exits) {
    AppendRow(
        std::vector<std::string>{
            NameOf(exit), exit.layer ? Fixed(100 * exit.depth, 0) + " %" : "",
            Percent(exit.match_rate), Percent(exit.root_match_rate), Fixed(exit.calibrated.mean, 3),
            Fixed(exit.calibrated.error, 3), AreaText(exit.calibrated), Fixed(exit.softmax.mean, 3),
            Fixed(exit.softmax.error, 3), AreaText(exit.softmax), Percent(exit.cost)},
        table);
  }
  return table;
}

std::string ToCsv(std::span<const ModeFigures> modes) {
  std::string csv =
      "mode,layer,depth,guesses,match_rate,root_match_rate,calibrated_mean,calibrated_ece,"
      "calibrated_auc,softmax_mean,softmax_ece,softmax_auc,cost\n";
  const auto area = [](const PriorityFigures& figures) {
    return figures.area ? Concat(*figures.area) : std::string();
  };
  for (const ModeFigures& mode : modes) {
    for (const ExitFigures& exit : mode.exits) {
      csv += Concat(mode.mode, ',', NameOf(exit), ',', exit.depth, ',', exit.guess_count, ',',
                    exit.match_rate, ',', exit.root_match_rate, ',', exit.calibrated.mean, ',',
                    exit.calibrated.error, ',', area(exit.calibrated), ',', exit.softmax.mean, ',',
                    exit.softmax.error, ',', area(exit.softmax), ',', exit.cost, '\n');
    }
  }
  return csv;
}

Chart MatchesByLayer(std::span<const ModeFigures> modes, const std::string& model) {
  Chart chart{.title = "How often exits guess the verdict, and how sure they are",
              .subtitle = model,
              .x_label = "depth of the exit, % of the layers",
              .y_label = "%",
              .lines = {}};
  for (const ModeFigures& mode : modes) {
    chart.lines.push_back(
        LineOf(mode, "outcome right", [](const ExitFigures& exit) { return exit.match_rate; }));
    chart.lines.push_back(
        LineOf(mode, "token right", [](const ExitFigures& exit) { return exit.root_match_rate; }));
    chart.lines.push_back(
        LineOf(mode, "probability", [](const ExitFigures& exit) { return exit.calibrated.mean; }));
    chart.lines.push_back(
        LineOf(mode, "softmax", [](const ExitFigures& exit) { return exit.softmax.mean; }));
  }
  return chart;
}

Chart ReliabilityDiagram(std::span<const ModeFigures> modes, const std::string& model) {
  Chart chart{.title = "How often exits are right, by how sure they are",
              .subtitle = Concat(model, "; all exits, ", kReliabilityBins, " bins of equal counts"),
              .x_label = "what the exit says",
              .y_label = "share that was right",
              .lines = {{.name = "as it should be", .points = {{0, 0}, {1, 1}}}}};
  for (const ModeFigures& mode : modes) {
    chart.lines.push_back(LineOf(mode, "probability", mode.exits.back().calibrated));
    chart.lines.push_back(LineOf(mode, "softmax", mode.exits.back().softmax));
  }
  return chart;
}

}  // namespace outrider
