#include "client/planner/run_rows.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr uint32_t kPromptUsual = 256;
constexpr uint32_t kPromptLeast = 16;  // of which halves are tried
constexpr uint32_t kStep = 64;
// What a pass may read more. A layer of fifty, or a few experts; of fewer layers none.
constexpr double kRiseMax = 0.02;

}  // namespace

RunLimits RowsFor(uint32_t context_length, uint32_t node_count_max) {
  const uint32_t pass = 1 + node_count_max;
  const uint32_t usual = kPromptUsual + pass;
  return {.pass = pass, .usual = usual, .most = std::max(usual, context_length + node_count_max)};
}

uint32_t LeastRows(const RunLimits& limits) {
  return kPromptLeast + limits.pass;
}

uint32_t RowsThatFit(const RunLimits& limits, const PlanOfRows& plan_of) {
  for (uint32_t prompt = kPromptUsual; prompt > kPromptLeast; prompt /= 2) {
    if (plan_of(prompt + limits.pass).ok()) return prompt + limits.pass;
  }
  return LeastRows(limits);
}

uint32_t RowsThatHide(const RunLimits& limits, const FlashSetting& machine,
                      const PlanOfRows& plan_of) {
  uint32_t best = limits.usual;
  double bytes_max = 0;
  for (uint32_t rows = limits.usual;; rows = std::min(rows + kStep, limits.most)) {
    const absl::StatusOr<MemoryPlan> plan = plan_of(rows);
    if (!plan.ok()) return best;
    const auto bytes = static_cast<double>(plan->bytes_per_pass);
    if (rows == limits.usual) bytes_max = (1 + kRiseMax) * bytes;
    if (bytes > bytes_max) return best;
    best = rows;
    FlashSetting setting = machine;
    setting.reads = plan->reads();
    if (rows == limits.most || HidesReads(setting, rows)) return best;
  }
}

}  // namespace outrider
