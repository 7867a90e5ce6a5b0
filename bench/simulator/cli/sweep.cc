// simulate sweep: policies and baselines along an axis.
#include <array>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/cli/parse.h"
#include "bench/simulator/studies/contenders.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/drawing/chart.h"

namespace outrider {
namespace {

struct SweepFlags {
  ScenarioFlags scenario;
  std::string axis;
  std::string range;
  std::string svg;
};

// What is printed of every way at every value, a table each.
struct Printed {
  const char* what;
  double Figures::*figure;
  int decimals;
};
constexpr std::array<Printed, 3> kPrinted = {{{"ms/token", &Figures::token_ms, 2},
                                              {"p95", &Figures::token_ms_p95, 1},
                                              {"rows/token", &Figures::rows_per_token, 2}}};

// A way, at every value.
struct Swept {
  std::string name;
  std::vector<Figures> figures;
};

absl::StatusOr<std::vector<double>> ValuesIn(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string_view part : SplitAt(text, ':')) {
    numbers.push_back(ParseNumber(part).value_or(-1));
  }
  if (numbers.size() != 3 || numbers[0] < 0 || numbers[1] < numbers[0] || numbers[2] <= 0) {
    return InvalidArgument("'", text, "' is no range: it is written FIRST:LAST:STEP, as in ",
                           "0:300:20");
  }
  std::vector<double> values;
  const double last = numbers[1] * (1 + 1e-9);
  for (double value = numbers[0]; value <= last; value += numbers[2]) values.push_back(value);
  return values;
}

// With its unit.
std::string LabelOf(const std::string& axis) {
  if (axis == "rtt") return "round trip, ms";
  if (axis == "jitter") return "mean extra delay of a packet, ms";
  if (axis == "target") return "time of a pass of one row, ms";
  if (axis == "draft-time") return "time of a batch of one node of the draft, ms";
  if (axis == "acceptance") return "how often the draft's first choice is the target's";
  return axis;
}

// Of the same shape, if it has a name; flat, if not.
std::string WithTimeOfOne(const std::string& time, double ms) {
  const std::string_view shape = TimeProfile::ShapeIn(time);
  return shape.empty() ? Fixed(ms, 3) : Concat(shape, ":", Fixed(ms, 3));
}

absl::Status SetAxis(ScenarioFlags& flags, const std::string& axis, double value) {
  if (axis == "rtt") {
    flags.rtt_ms = value;
  } else if (axis == "jitter") {
    flags.jitter_ms = value;
  } else if (axis == "target") {
    flags.target_time = WithTimeOfOne(flags.target_time, value);
  } else if (axis == "draft-time") {
    flags.draft_time = WithTimeOfOne(flags.draft_time, value);
  } else if (axis == "acceptance") {
    flags.draft = Fixed(value, 4);
  } else if (axis == "sessions") {
    flags.sessions = static_cast<uint32_t>(value);
  } else {
    return InvalidArgument("'", axis,
                           "' is none of rtt, jitter, target, draft-time, acceptance, sessions");
  }
  return absl::OkStatus();
}

Chart ChartOf(const SweepFlags& sweep, std::span<const double> values,
              std::span<const Swept> ways) {
  const ScenarioFlags& flags = sweep.scenario;
  Chart chart = {.title = "Time per token",
                 .subtitle = Concat("unless swept: round trip ", Fixed(flags.rtt_ms, 0),
                                    " ms, a pass ", flags.target_time, " ms, a batch of the draft ",
                                    flags.draft_time, " ms, draft ", flags.draft),
                 .x_label = LabelOf(sweep.axis),
                 .y_label = "ms per token",
                 .lines = {}};
  for (const Swept& way : ways) {
    Chart::Line line = {way.name, {}, /*stands_out=*/way.name == kOurs};
    for (size_t i = 0; i < values.size(); ++i) {
      line.points.emplace_back(values[i], way.figures[i].token_ms);
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// A line for every way: there are more of them than values, as a rule, and their names are long.
std::string TableOf(const Printed& printed, const std::string& axis, std::span<const double> values,
                    std::span<const Swept> ways) {
  std::vector<std::vector<std::string>> rows = {{Concat(printed.what, " by ", axis)}};
  for (const double value : values) rows[0].push_back(Fixed(value, 2));
  for (const Swept& way : ways) {
    rows.push_back({way.name});
    for (const Figures& figures : way.figures) {
      rows.back().push_back(Fixed(figures.*printed.figure, printed.decimals));
    }
  }
  return Table(rows);
}

absl::Status AddValue(const SweepFlags& sweep, double value, std::vector<Swept>& ways) {
  ScenarioFlags flags = sweep.scenario;
  OUTRIDER_RETURN_IF_ERROR(SetAxis(flags, sweep.axis, value));
  const std::vector<Contender> contenders = ContendersOf(flags);
  ways.resize(contenders.size());
  for (size_t i = 0; i < contenders.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(contenders[i].flags));
    ways[i].name = contenders[i].name;
    ways[i].figures.push_back(figures);
  }
  return absl::OkStatus();
}

absl::Status Sweep(const SweepFlags& sweep) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> values, ValuesIn(sweep.range));
  std::vector<Swept> ways;
  for (const double value : values) OUTRIDER_RETURN_IF_ERROR(AddValue(sweep, value, ways));
  for (const Printed& printed : kPrinted) {
    if (&printed != kPrinted.begin()) std::fputs("\n", stdout);
    std::fputs(TableOf(printed, sweep.axis, values, ways).c_str(), stdout);
  }
  if (sweep.svg.empty()) return absl::OkStatus();
  return WriteFile(sweep.svg, ToSvg(ChartOf(sweep, values, ways)));
}

}  // namespace

void AddSweepCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand("sweep", "Policies and baselines, along an axis");
  auto flags = std::make_shared<SweepFlags>();
  command->add_option("AXIS", flags->axis, "rtt, jitter, target, draft-time, acceptance, sessions")
      ->required();
  command->add_option("RANGE", flags->range, "FIRST:LAST:STEP, as in 0:300:20")->required();
  command->add_option("--svg", flags->svg, "Draws it to this file");
  flags->scenario.AddTo(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return Sweep(*flags); }; });
}

}  // namespace outrider
