#include "client/planner/run_rows.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr uint32_t kPromptUsual = 256;
constexpr uint32_t kPromptLeast = 16;  // of which halves are tried
constexpr uint32_t kStep = 64;
// What a pass may read more. A layer of fifty, or a few experts; of fewer layers none.
constexpr double kRiseMax = 0.02;
// A run packs what it reads, which of the computing of so many tokens is a few per cent.
constexpr uint32_t kPackedPrompt = 1024;

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
  double bytes_max = 0;  // that a run may read
  for (uint32_t rows = limits.usual;; rows = std::min(rows + kStep, limits.most)) {
    const absl::StatusOr<MemoryPlan> plan = plan_of(rows);
    if (!plan.ok()) return best;
    const auto bytes = static_cast<double>(plan->bytes_per_pass);
    if (rows == limits.usual) bytes_max = (1 + kRiseMax) * bytes;
    if (bytes > bytes_max) return best;
    best = rows;
    if (rows == limits.most) return best;
    FlashSetting setting = machine;
    setting.reads = plan->reads();
    if (!HidesReads(setting, rows)) continue;
    if (rows >= kPackedPrompt + limits.pass) return best;
    bytes_max = bytes;
  }
}

}  // namespace outrider
