#include "common/speculation/costs/latency_profile.h"

#include <bit>
#include <optional>

#include "common/base/check.h"

namespace outrider {

LatencyProfile::LatencyProfile(double base_ms, double slope_ms)
    : base_ms_(base_ms), slope_ms_(slope_ms) {
  OUTRIDER_CHECK(base_ms > 0 && slope_ms >= 0, "work takes time, and more work no less of it");
}

uint32_t LatencyProfile::StepOf(uint32_t count) {
  if (count <= 4) return count;
  const uint32_t octave = static_cast<uint32_t>(std::bit_width(count - 1)) - 1;  // 2: 5 to 8
  const uint32_t half = count > 3U << (octave - 1) ? 1 : 0;
  return std::min(5 + 2 * (octave - 2) + half, kStepCount - 1);
}

uint32_t LatencyProfile::LargestOf(uint32_t step) {
  if (step <= 4) return step;
  const uint32_t octave = 2 + (step - 5) / 2;
  return (step - 5) % 2 == 0 ? 3U << (octave - 1) : 1U << (octave + 1);
}

std::vector<ShapeTime> LatencyProfile::Seen() const {
  std::vector<ShapeTime> seen;
  for (uint32_t nodes = 0; nodes < kStepCount; ++nodes) {
    for (uint32_t leaves = 0; leaves < kStepCount; ++leaves) {
      const Ratio& ratio = At({nodes, leaves});
      if (ratio.empty()) continue;
      const PassShape shape = {LargestOf(nodes), LargestOf(leaves)};
      seen.push_back({shape, Line(shape.nodes) * ratio.Value()});
    }
  }
  return seen;
}

uint32_t LatencyProfile::Distance(const Cell& a, const Cell& b) {
  const auto apart = [](uint32_t x, uint32_t y) { return x > y ? x - y : y - x; };
  return apart(a.nodes, b.nodes) + apart(a.leaves, b.leaves);
}

void LatencyProfile::Add(const PassShape& shape, double ms) {
  ratios_[StepOf(shape.nodes) * kStepCount + StepOf(shape.leaves)].Add(ms / Line(shape.nodes));
}

double LatencyProfile::Estimate(const PassShape& shape) const {
  const Cell wanted = {StepOf(shape.nodes), StepOf(shape.leaves)};
  if (!At(wanted).empty()) return Line(shape.nodes) * At(wanted).Value();

  struct Nearest {
    uint32_t distance = UINT32_MAX;
    Cell cell = {0, 0};
    void Consider(const Cell& other, uint32_t away) {
      if (away < distance) *this = {away, other};
    }
    bool found() const { return distance != UINT32_MAX; }
  };
  Nearest smaller, larger, any;
  for (uint32_t nodes = 0; nodes < kStepCount; ++nodes) {
    for (uint32_t leaves = 0; leaves < kStepCount; ++leaves) {
      const Cell cell = {nodes, leaves};
      if (At(cell).empty()) continue;
      const uint32_t away = Distance(cell, wanted);
      any.Consider(cell, away);
      if (nodes <= wanted.nodes && leaves <= wanted.leaves) smaller.Consider(cell, away);
      if (nodes >= wanted.nodes && leaves >= wanted.leaves) larger.Consider(cell, away);
    }
  }
  if (!any.found()) return Line(shape.nodes);

  double ratio = At(any.cell).Value();
  if (smaller.found() && larger.found()) {
    const double way = smaller.distance + larger.distance;
    ratio =
        (At(smaller.cell).Value() * larger.distance + At(larger.cell).Value() * smaller.distance) /
        way;
  }
  return Line(shape.nodes) * ratio * (1 + kPenalty * any.distance);
}

}  // namespace outrider
