#include "common/base/energy_meter.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace outrider {
namespace {

namespace fs = std::filesystem;

constexpr double kJoulesPerMicrowattHour = 3600e-6;

std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::string WordIn(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// In the order of their names; none where there is no such folder.
std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& root, const Clock& clock) : clock_(clock) {
  FindRapl(root);
  if (source_.empty()) FindIna(root);
  if (source_.empty()) FindBattery(root);
  Sample();
  joules_ = 0;
}

std::optional<double> EnergyMeter::joules() const {
  return source_.empty() ? std::nullopt : std::optional(joules_);
}

// Packages, which hold all other domains; their names have one colon.
void EnergyMeter::FindRapl(const std::string& root) {
  for (const std::string& zone : EntriesOf(root + "/class/powercap")) {
    const std::string name = fs::path(zone).filename();
    if (!name.starts_with("intel-rapl:") || std::ranges::count(name, ':') != 1) continue;
    if (!WordIn(zone + "/name").starts_with("package")) continue;
    const std::optional<uint64_t> now = NumberIn(zone + "/energy_uj");
    if (!now) continue;
    counters_.push_back({.path = zone + "/energy_uj",
                         .last = *now,
                         .wraps_at = NumberIn(zone + "/max_energy_range_uj").value_or(0)});
  }
  if (!counters_.empty()) source_ = "RAPL";
}

// Of one monitor the first channel is the whole board's on the Jetsons that have one so named; else
// all that there are.
void EnergyMeter::FindIna(const std::string& root) {
  std::vector<Rail> whole;
  for (const std::string& monitor : EntriesOf(root + "/class/hwmon")) {
    if (!WordIn(monitor + "/name").starts_with("ina")) continue;
    for (int channel = 1; channel <= 3; ++channel) {
      const std::string n = std::to_string(channel);
      const Rail rail = {monitor + "/in" + n + "_input", monitor + "/curr" + n + "_input"};
      if (!NumberIn(rail.millivolts) || !NumberIn(rail.milliamperes)) continue;
      rails_.push_back(rail);
      if (WordIn(monitor + "/in" + n + "_label") == "VDD_IN") whole.push_back(rail);
    }
  }
  if (!whole.empty()) rails_ = whole;
  if (!rails_.empty()) source_ = "INA";
}

void EnergyMeter::FindBattery(const std::string& root) {
  for (const std::string& supply : EntriesOf(root + "/class/power_supply")) {
    if (WordIn(supply + "/type") != "Battery" || WordIn(supply + "/status") != "Discharging") {
      continue;
    }
    const std::optional<uint64_t> now = NumberIn(supply + "/energy_now");
    if (!now) continue;
    battery_ = supply + "/energy_now";
    left_ = *now;
    source_ = "battery";
    return;
  }
}

void EnergyMeter::Sample() {
  SampleCounters();
  SampleRails();
  SampleBattery();
}

void EnergyMeter::SampleCounters() {
  for (Counter& counter : counters_) {
    const std::optional<uint64_t> now = NumberIn(counter.path);
    if (!now) continue;
    const uint64_t wrapped = *now < counter.last ? counter.wraps_at : 0;
    joules_ += 1e-6 * static_cast<double>(*now + wrapped - counter.last);
    counter.last = *now;
  }
}

// Between two samples power is taken to go straight from one to the other.
void EnergyMeter::SampleRails() {
  if (rails_.empty()) return;
  double watts = 0;
  for (const Rail& rail : rails_) {
    watts += 1e-6 * static_cast<double>(NumberIn(rail.millivolts).value_or(0)) *
             static_cast<double>(NumberIn(rail.milliamperes).value_or(0));
  }
  const MonotonicTime now = clock_.Now();
  if (watts_) {
    joules_ += (*watts_ + watts) / 2 * std::chrono::duration<double>(now - sampled_at_).count();
  }
  watts_ = watts;
  sampled_at_ = now;
}

void EnergyMeter::SampleBattery() {
  if (battery_.empty()) return;
  const std::optional<uint64_t> now = NumberIn(battery_);
  if (!now) return;
  if (*now < left_) joules_ += kJoulesPerMicrowattHour * static_cast<double>(left_ - *now);
  left_ = *now;
}

}  // namespace outrider
