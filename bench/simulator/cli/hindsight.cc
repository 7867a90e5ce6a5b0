// simulate hindsight: what policy auto costs over the best fixed way, from the first token on.
#include "bench/simulator/studies/hindsight.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/cli/points.h"
#include "bench/simulator/sources/draft_skill.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

struct HindsightFlags {
  std::vector<std::string> targets = {"cpu:20", "gpu:20"};
  std::vector<double> round_trips = {0, 10, 60, 200};
  std::vector<std::string> drafts = {"draft:1", "draft:3", "draft:5", "draft:10"};
  std::vector<double> acceptances = {0.5, 0.7, 0.85, 0.95};
  bool one_processor = false;
  uint32_t replies = 8;
  uint32_t rows = 12;
  uint32_t threads = ProcessorCount();
};

// What is held for replies of a length. Of short ones it takes more to tell ways apart.
struct Bar {
  uint32_t tokens;
  uint32_t times_replies;
  double bound;
};
constexpr std::array<Bar, 2> kBars = {{{100, 8, 0.05}, {1500, 1, 0.03}}};

struct Point {
  double acceptance;
  ScenarioFlags met;
  Hindsight found = {};
};

double RegretAt(const Point& point) {
  return point.found.regret();
}

std::vector<Point> PointsOf(const HindsightFlags& flags, uint32_t tokens) {
  const std::vector<double> none = {0};
  std::vector<Point> points;
  ScenarioFlags met;
  met.tokens = tokens;
  met.one_processor = flags.one_processor;
  for (const std::string& target : flags.targets) {
    met.target_time = target;
    for (const double round_trip : flags.one_processor ? none : flags.round_trips) {
      met.rtt_ms = round_trip;
      for (const std::string& draft : flags.drafts) {
        met.draft_time = draft;
        for (const double acceptance : flags.acceptances) {
          met.draft = SkillLikeGood(acceptance);
          points.push_back({acceptance, met});
        }
      }
    }
  }
  return points;
}

// The worst first.
void Print(const HindsightFlags& flags, const Bar& bar, std::span<const Point> points) {
  double sum = 0;
  uint32_t above = 0;
  for (const Point& point : points) {
    sum += RegretAt(point);
    above += RegretAt(point) > bar.bound ? 1 : 0;
  }
  std::printf("replies of %u tokens: %zu points, mean %.1f %%, worst %.1f %%; above %.0f %%: %u\n",
              bar.tokens, points.size(), 100 * sum / static_cast<double>(points.size()),
              100 * RegretAt(points.front()), 100 * bar.bound, above);
  std::vector<std::vector<std::string>> rows = {
      {"the worst", "RTT", "draft", "right", "auto", "best", "", "%", "+-"}};
  for (const Point& point : points.first(std::min<size_t>(flags.rows, points.size()))) {
    const Hindsight& found = point.found;
    rows.push_back({point.met.target_time, Fixed(point.met.rtt_ms, 0), point.met.draft_time,
                    Fixed(point.acceptance, 2), Fixed(found.auto_ms, 2), Fixed(found.best_ms, 2),
                    found.best, Fixed(100 * found.regret(), 1), Fixed(100 * found.error, 1)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::fputs("\n", stdout);
  std::fflush(stdout);
}

absl::Status PrintHindsight(const HindsightFlags& flags) {
  for (const Bar& bar : kBars) {
    std::vector<Point> points = PointsOf(flags, bar.tokens);
    OUTRIDER_RETURN_IF_ERROR(ForEachPoint(
        Concat("simulate hindsight, ", bar.tokens, " tokens"), points.size(), flags.threads,
        [&](size_t i) -> absl::Status {
          OUTRIDER_ASSIGN_OR_RETURN(
              points[i].found,
              InHindsight(points[i].met, bar.times_replies * flags.replies, bar.bound));
          return absl::OkStatus();
        }));
    std::ranges::sort(points, std::greater(), RegretAt);
    Print(flags, bar, points);
  }
  return absl::OkStatus();
}

}  // namespace

void AddHindsightCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command =
      app.add_subcommand("hindsight",
                         "Policy auto against the best way in hindsight (every policy, 2 to 32 "
                         "nodes a pass; chains; the "
                         "target alone), from the first token on: over 100 tokens, and over 1500");
  auto flags = std::make_shared<HindsightFlags>();
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->capture_default_str();
  };
  add("--rtt", flags->round_trips, "Round trips, ms")->delimiter(',');
  add("--target", flags->targets, "Times of a pass: cpu:MS, gpu:MS, measured shapes; MS, flat")
      ->delimiter(',');
  add("--right", flags->acceptances, "How often the draft's first guess is right")->delimiter(',');
  add("--draft-time", flags->drafts, "Times of a batch: draft:MS, measured; MS, flat")
      ->delimiter(',');
  command->add_flag("--one-processor", flags->one_processor,
                    "Draft and target take turns on one, in one process; there is no link");
  add("--replies", flags->replies,
      "Of 1500 tokens, by which the best is chosen, and over which it is compared; of 100, eight "
      "times as many")
      ->check(CLI::Range(2, 10'000));
  add("--rows", flags->rows, "Points that are printed, the worst first");
  add("--threads", flags->threads, "Points that are run at a time")->check(AboveZero());
  command->callback([flags, &chosen] { chosen = [flags] { return PrintHindsight(*flags); }; });
}

}  // namespace outrider
