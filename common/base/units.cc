#include "common/base/units.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <span>

#include "common/base/status.h"

namespace outrider {
namespace {

std::string Scaled(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const std::string number = Fixed(value, decimals);
  return *units[unit] == '\0' ? number : Concat(number, " ", units[unit]);
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  return Scaled(static_cast<double>(bytes), 1024, kUnits);
}

std::string HumanCount(uint64_t count) {
  static constexpr std::array kUnits = {"", "k", "M", "B", "T"};
  return Scaled(static_cast<double>(count), 1000, kUnits);
}

std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

}  // namespace outrider
