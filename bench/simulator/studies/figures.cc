#include "bench/simulator/studies/figures.h"

#include <algorithm>

namespace outrider {
namespace {

double Ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

// The waits of one device's tokens, its first ones left out.
void AddWaits(const SimulatedDevice& device, std::vector<double>& waits) {
  const std::span<const SimulatedDevice::Arrival> arrivals = device.arrivals();
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double wait_ms = ToMilliseconds(arrivals[i].at - arrivals[i - 1].at);
    waits.insert(waits.end(), arrivals[i].count, wait_ms / arrivals[i].count);
  }
}

double Sum(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const size_t index =
      std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

}  // namespace

double JainIndex(std::span<const double> speeds) {
  double sum = 0;
  double squares = 0;
  for (const double speed : speeds) {
    sum += speed;
    squares += speed * speed;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(speeds.size()) * squares) : 1;
}

Figures FiguresOf(Simulation& simulation) {
  Figures figures;
  SessionStats total;
  std::vector<double> waits;
  std::vector<double> speeds;
  double bytes_up = 0;
  double bytes_down = 0;
  for (size_t i = 0; i < simulation.device_count(); ++i) {
    const SimulatedDevice& device = simulation.device(i);
    const SessionStats& stats = device.session().stats();
    figures.tokens += device.shown().size();
    total.passes += stats.passes;
    total.nodes_expanded += stats.nodes_expanded;
    total.nodes_sent += stats.nodes_sent;
    total.nodes_accepted += stats.nodes_accepted;
    total.hints_right += stats.hints_right;
    total.roots_grown_unhinted += stats.roots_grown_unhinted;
    total.roots_grown_before_hint += stats.roots_grown_before_hint;
    total.roots_grown_after_hint += stats.roots_grown_after_hint;
    bytes_up += static_cast<double>(device.bytes_up());
    bytes_down += static_cast<double>(device.bytes_down());
    std::vector<double> own_waits;
    AddWaits(device, own_waits);
    speeds.push_back(Ratio(static_cast<double>(own_waits.size()), Sum(own_waits)));
    waits.insert(waits.end(), own_waits.begin(), own_waits.end());
    if (!device.arrivals().empty()) {
      figures.first_ms += ToMilliseconds(device.arrivals().front().at - device.started()) /
                          static_cast<double>(simulation.device_count());
    }
  }
  const double tokens = static_cast<double>(figures.tokens);
  const double passes = static_cast<double>(total.passes);
  const double sent = static_cast<double>(total.nodes_sent);
  const Host& host = simulation.host();
  figures.passes = total.passes;
  figures.token_ms = Ratio(Sum(waits), static_cast<double>(waits.size()));
  figures.token_ms_p95 = Percentile(std::move(waits), 0.95);
  figures.passes_per_token = Ratio(passes, tokens);
  figures.passes_per_run =
      Ratio(static_cast<double>(host.passes()), static_cast<double>(host.runs()));
  figures.rows_per_pass =
      Ratio(static_cast<double>(host.rows()), static_cast<double>(host.passes()));
  figures.rows_per_token = Ratio(static_cast<double>(host.rows()), tokens);
  figures.ready_share =
      Ratio(static_cast<double>(host.ready_passes()), static_cast<double>(host.passes()));
  figures.grown_by_draft = Ratio(static_cast<double>(total.roots_grown_unhinted), passes);
  figures.grown_by_both = Ratio(static_cast<double>(total.roots_grown_before_hint), passes);
  figures.grown_by_hint = Ratio(static_cast<double>(total.roots_grown_after_hint), passes);
  figures.expanded_per_token = Ratio(static_cast<double>(total.nodes_expanded), tokens);
  figures.sent_per_token = Ratio(sent, tokens);
  figures.wasted_share = Ratio(sent - static_cast<double>(total.nodes_accepted), sent);
  figures.bytes_up_per_token = Ratio(bytes_up, tokens);
  figures.bytes_down_per_token = Ratio(bytes_down, tokens);
  figures.hinted_share = Ratio(static_cast<double>(total.hints_right), passes);
  figures.target_busy = Ratio(ToMilliseconds(host.busy()),
                              ToMilliseconds(simulation.events().now() - simulation.begin()));
  figures.tokens_per_target_second = Ratio(1000 * tokens, ToMilliseconds(host.busy()));
  figures.fairness = JainIndex(speeds);
  return figures;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      text += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    text += '\n';
  }
  return text;
}

}  // namespace outrider
