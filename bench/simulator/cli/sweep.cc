// simulate sweep: policies and baselines along an axis.
#include <cstdio>
#include <memory>
#include <string>
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

struct Range {
  double first;
  double last;
  double step;
};

absl::StatusOr<Range> ParseRange(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string_view part : SplitAt(text, ':')) {
    numbers.push_back(ParseNumber(part).value_or(-1));
  }
  if (numbers.size() != 3 || numbers[0] < 0 || numbers[1] < numbers[0] || numbers[2] <= 0) {
    return InvalidArgument("'", text, "' is no range: it is written FIRST:LAST:STEP, as in ",
                           "0:300:20");
  }
  return Range{numbers[0], numbers[1], numbers[2]};
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

Chart ChartOf(const SweepFlags& sweep) {
  const ScenarioFlags& flags = sweep.scenario;
  return {.title = "Time per token",
          .subtitle = Concat("unless swept: round trip ", Fixed(flags.rtt_ms, 0), " ms, a pass ",
                             flags.target_time, " ms, a batch of the draft ", flags.draft_time,
                             " ms, draft ", flags.draft),
          .x_label = LabelOf(sweep.axis),
          .y_label = "ms per token",
          .lines = {}};
}

absl::Status Sweep(const SweepFlags& sweep) {
  OUTRIDER_ASSIGN_OR_RETURN(const Range range, ParseRange(sweep.range));
  Chart chart = ChartOf(sweep);
  std::vector<std::vector<std::string>> rows = {{sweep.axis}};
  for (double value = range.first; value <= range.last * (1 + 1e-9); value += range.step) {
    ScenarioFlags flags = sweep.scenario;
    OUTRIDER_RETURN_IF_ERROR(SetAxis(flags, sweep.axis, value));
    rows.push_back({Fixed(value, 2)});
    const std::vector<Contender> contenders = ContendersOf(flags);
    chart.lines.resize(contenders.size());
    for (size_t i = 0; i < contenders.size(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const Figures figures, Measure(contenders[i].flags));
      Chart::Line& line = chart.lines[i];
      if (line.points.empty()) {
        line.name = contenders[i].name;
        line.stands_out = line.name == kOurs;
        rows[0].push_back(line.name);
      }
      line.points.emplace_back(value, figures.token_ms);
      rows.back().push_back(Fixed(figures.token_ms, 2));
    }
  }
  std::fputs(Table(rows).c_str(), stdout);
  return sweep.svg.empty() ? absl::OkStatus() : WriteFile(sweep.svg, ToSvg(chart));
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
