#include "tests/simulator/all_pairs.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

struct Setting {
  size_t factor;
  size_t value;

  auto operator<=>(const Setting&) const = default;
};

// Pairs that have not met yet, each both ways round.
class Strangers {
 public:
  explicit Strangers(std::span<const size_t> value_counts) {
    for (const Setting& a : AllSettings(value_counts)) {
      for (const Setting& b : AllSettings(value_counts)) {
        if (a.factor != b.factor) pairs_.emplace(a, b);
      }
    }
  }

  bool empty() const { return pairs_.empty(); }
  size_t Among(const Setting& one, std::span<const Setting> others) const {
    return static_cast<size_t>(std::ranges::count_if(others, [&](const Setting& other) {
      return pairs_.contains({one, other});
    }));
  }
  // Of factors that the row does not have yet.
  size_t Besides(const Setting& one, std::span<const Setting> row) const {
    const auto begin = pairs_.lower_bound({one, {0, 0}});
    const auto end = pairs_.lower_bound({{one.factor, one.value + 1}, {0, 0}});
    return static_cast<size_t>(std::count_if(begin, end, [&](const auto& pair) {
      return std::ranges::find(row, pair.second.factor, &Setting::factor) == row.end();
    }));
  }
  void Meet(std::span<const Setting> row) {
    for (const Setting& a : row) {
      for (const Setting& b : row) pairs_.erase({a, b});
    }
  }

 private:
  static std::vector<Setting> AllSettings(std::span<const size_t> value_counts) {
    std::vector<Setting> settings;
    for (size_t factor = 0; factor < value_counts.size(); ++factor) {
      for (size_t value = 0; value < value_counts[factor]; ++value) {
        settings.push_back({factor, value});
      }
    }
    return settings;
  }

  std::set<std::pair<Setting, Setting>> pairs_;
};

// The value that meets most strangers in the row; of several, the one with most of them to come.
Setting Choose(const Strangers& strangers, std::span<const Setting> row, size_t factor,
               size_t value_count) {
  Setting best = {factor, 0};
  std::pair<size_t, size_t> most = {0, 0};
  for (size_t value = 0; value < value_count; ++value) {
    const Setting setting = {factor, value};
    const std::pair met = {strangers.Among(setting, row), strangers.Besides(setting, row)};
    if (value == 0 || met > most) {
      best = setting;
      most = met;
    }
  }
  return best;
}

}  // namespace

// Row by row, each meeting as many strangers as it can, the largest factors first. Every row meets
// some: the first factor that still has strangers takes a value with some, and one of them has a
// factor that comes later.
std::vector<std::vector<size_t>> AllPairs(std::span<const size_t> value_counts) {
  OUTRIDER_CHECK(value_counts.size() >= 2, "a pair is of two factors");
  OUTRIDER_CHECK(std::ranges::min(value_counts) > 0, "a factor has a value");
  std::vector<size_t> order(value_counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return value_counts[i]; });

  std::vector<std::vector<size_t>> rows;
  Strangers strangers(value_counts);
  while (!strangers.empty()) {
    std::vector<Setting> row;
    for (const size_t factor : order) {
      row.push_back(Choose(strangers, row, factor, value_counts[factor]));
    }
    strangers.Meet(row);
    std::vector<size_t>& values = rows.emplace_back(value_counts.size());
    for (const Setting& setting : row) values[setting.factor] = setting.value;
  }
  return rows;
}

}  // namespace outrider
