#include "adapters/training/loss_curve.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/drawing/chart.h"

namespace outrider {
namespace {

constexpr size_t kPointsMax = 120;  // of a line in the picture

absl::Status WriteText(const std::string& path, std::string_view text) {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  OUTRIDER_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace

std::string LossTable(const TrainingState& state, const Schedule& schedule,
                      uint64_t tokens_per_step) {
  std::string table = "step,tokens,learning_rate,loss,gradient_norm,validation_loss\n";
  auto validation = state.validations.begin();
  for (uint64_t step = 1; step <= state.step; ++step) {
    table += Concat(step, ",", step * tokens_per_step, ",", Fixed(schedule.RateAt(step - 1), 8),
                    ",", Fixed(state.losses[step - 1], 5), ",",
                    Fixed(state.gradient_norms[step - 1], 4), ",");
    while (validation != state.validations.end() && validation->step < step) ++validation;
    if (validation != state.validations.end() && validation->step == step) {
      table += Fixed(validation->loss, 5);
    }
    table += "\n";
  }
  return table;
}

std::string LossPicture(const TrainingState& state, uint64_t tokens_per_step,
                        const std::string& title) {
  const auto millions = [&](double step) {
    return step * static_cast<double>(tokens_per_step) / 1e6;
  };
  Chart::Line training{"training", {}, false};
  const size_t count = state.losses.size();
  const size_t part_count = std::min(count, kPointsMax);
  for (size_t part = 0; part < part_count; ++part) {
    const size_t begin = part * count / part_count;
    const size_t end = (part + 1) * count / part_count;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += state.losses[i];
    training.points.emplace_back(millions(static_cast<double>(begin + end) / 2),
                                 sum / static_cast<double>(end - begin));
  }
  Chart::Line validation{"validation", {}, true};
  for (const TrainingState::Validation& point : state.validations) {
    validation.points.emplace_back(millions(static_cast<double>(point.step)), point.loss);
  }
  Chart chart{.title = title,
              .subtitle = Concat(count, " steps of ", tokens_per_step, " tokens"),
              .x_label = "tokens read, millions",
              .y_label = "loss, nats per token",
              .lines = {}};
  chart.lines.push_back(std::move(training));
  if (!validation.points.empty()) chart.lines.push_back(std::move(validation));
  return ToSvg(chart);
}

absl::Status WriteLossCurve(const std::string& path, const TrainingState& state,
                            const Schedule& schedule, uint64_t tokens_per_step,
                            const std::string& title) {
  OUTRIDER_RETURN_IF_ERROR(WriteText(path + ".csv", LossTable(state, schedule, tokens_per_step)));
  return WriteText(path + ".svg", LossPicture(state, tokens_per_step, title));
}

}  // namespace outrider
