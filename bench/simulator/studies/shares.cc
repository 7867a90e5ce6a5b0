#include "bench/simulator/studies/shares.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

// When all sessions were at work.
struct Stretch {
  MonotonicTime begin;
  MonotonicTime end;
};

Stretch CommonStretch(Simulation& simulation) {
  Stretch stretch = {simulation.begin(), simulation.events().now()};
  for (size_t i = 0; i < simulation.device_count(); ++i) {
    const std::span<const SimulatedDevice::Arrival> arrivals = simulation.device(i).arrivals();
    if (arrivals.empty()) return {stretch.begin, stretch.begin};
    stretch.begin = std::max(stretch.begin, arrivals.front().at);
    stretch.end = std::min(stretch.end, arrivals.back().at);
  }
  return stretch;
}

std::vector<Shares::Of> FairShares(const Simulation& simulation, std::vector<Shares::Of>& keys) {
  std::vector<size_t> counts;
  for (size_t i = 0; i < simulation.device_count(); ++i) {
    counts.resize(std::max(counts.size(), simulation.KeyNumberOf(i) + 1));
    ++counts[simulation.KeyNumberOf(i)];
  }
  const double of_key = 1 / static_cast<double>(counts.size());
  for (size_t key = 0; key < counts.size(); ++key) {
    keys.push_back({.name = Concat("key ", key), .key = key, .fair = of_key, .by_window = {}});
  }
  std::vector<Shares::Of> sessions;
  for (size_t i = 0; i < simulation.device_count(); ++i) {
    const size_t key = simulation.KeyNumberOf(i);
    sessions.push_back({.name = Concat("session ", i, ", key ", key),
                        .key = key,
                        .fair = of_key / static_cast<double>(counts[key]),
                        .by_window = {}});
  }
  return sessions;
}

// In a stretch, of a session.
struct Use {
  Duration time{};
  int64_t parts = 0;
};

void FindUsable(const Simulation& simulation, std::span<const Use> uses, int64_t run_count,
                std::vector<Shares::Of>& keys) {
  double whole = 0;
  double largest = 0;  // part of a session, in the mean
  for (const Use& use : uses) {
    whole += ToMilliseconds(use.time);
    if (use.parts == 0) continue;
    largest = std::max(largest, ToMilliseconds(use.time) / static_cast<double>(use.parts));
  }
  if (whole == 0) return;
  std::vector<double> usable(keys.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    usable[simulation.KeyNumberOf(i)] += largest * static_cast<double>(run_count) / whole;
  }
  const std::vector<double> parts = MaxMinParts(usable, 1);
  for (size_t key = 0; key < keys.size(); ++key) keys[key].usable = parts[key];
}

// Times to shares of their sum, window by window.
void Divide(std::vector<Shares::Of>& all) {
  for (size_t window = 0; window < all.front().by_window.size(); ++window) {
    double sum = 0;
    for (const Shares::Of& one : all) sum += one.by_window[window];
    for (Shares::Of& one : all) one.by_window[window] /= sum > 0 ? sum : 1;
  }
}

}  // namespace

double Shares::Of::least() const {
  return by_window.empty() ? 0 : std::ranges::min(by_window);
}

double Shares::Of::most() const {
  return by_window.empty() ? 0 : std::ranges::max(by_window);
}

double Shares::Of::mean() const {
  const double sum = std::accumulate(by_window.begin(), by_window.end(), 0.0);
  return by_window.empty() ? 0 : sum / static_cast<double>(by_window.size());
}

// Those who can use the least first: what they leave is the others'.
std::vector<double> MaxMinParts(std::span<const double> usable, double whole) {
  std::vector<size_t> order(usable.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return usable[i]; });
  std::vector<double> parts(usable.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const double equal = whole / static_cast<double>(order.size() - i);
    parts[order[i]] = std::min(usable[order[i]], equal);
    whole -= parts[order[i]];
  }
  return parts;
}

Shares SharesOf(Simulation& simulation, Duration window) {
  const Stretch stretch = CommonStretch(simulation);
  Shares shares{window, {}, {}};
  shares.sessions = FairShares(simulation, shares.keys);
  const auto count =
      static_cast<size_t>(std::max(Duration(0), stretch.end - stretch.begin) / window);
  for (Shares::Of& session : shares.sessions) session.by_window.resize(count);
  for (Shares::Of& key : shares.keys) key.by_window.resize(count);
  std::vector<Use> uses(shares.sessions.size());
  int64_t run_count = 0;
  MonotonicTime last_run{};
  std::vector<MonotonicTime> last(shares.sessions.size(), stretch.begin);
  for (const Host::Part& part : simulation.host().parts()) {
    if (part.end < stretch.begin || part.end >= stretch.end) continue;
    Shares::Of& session = shares.sessions[part.device];
    Shares::Of& key = shares.keys[simulation.KeyNumberOf(part.device)];
    session.longest_wait = std::max(session.longest_wait, part.end - last[part.device]);
    key.longest_wait = std::max(key.longest_wait, session.longest_wait);
    last[part.device] = part.end;
    if (part.time > Duration(0)) {
      uses[part.device].time += part.time;
      ++uses[part.device].parts;
      run_count += part.end != last_run ? 1 : 0;
      last_run = part.end;
    }
    const auto index = static_cast<size_t>((part.end - stretch.begin) / window);
    if (index >= count) continue;
    session.by_window[index] += ToMilliseconds(part.time);
    key.by_window[index] += ToMilliseconds(part.time);
  }
  Divide(shares.sessions);
  Divide(shares.keys);
  FindUsable(simulation, uses, run_count, shares.keys);
  return shares;
}

}  // namespace outrider
