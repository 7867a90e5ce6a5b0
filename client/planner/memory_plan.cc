#include "client/planner/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Rounded up.
uint64_t Mebibytes(uint64_t bytes) {
  return (bytes + kMebibyte - 1) / kMebibyte;
}

std::string ExitsText(const MemoryNeeds& needs) {
  return needs.exits_bytes == 0 ? "" : Concat(", its exits ", Mebibytes(needs.exits_bytes));
}

StreamOptions Least(const StreamShape& weights, bool pins_head) {
  return {
      .slot_count = 2, .pins_head = pins_head, .expert_place_count = weights.experts.place_least};
}

// As many layers are pinned as fit into `budget_bytes`. Nothing: not even none.
std::optional<StreamOptions> Fit(const StreamShape& weights, bool pins_head,
                                 uint64_t budget_bytes) {
  StreamOptions options = Least(weights, pins_head);
  const auto fits = [&](uint32_t pinned) {
    options.pinned_layer_count = pinned;
    return MemoryBytes(weights, options) <= budget_bytes;
  };
  // What one more takes depends on which are pinned then, so the largest that fits is looked for from
  // above. (Layers of one size would allow to halve; there are a few dozens.)
  uint32_t pinned = weights.layer_count();
  while (!fits(pinned)) {
    if (pinned-- == 0) return std::nullopt;
  }
  if (const ExpertShape& experts = weights.experts; experts.count > 0) {
    const uint64_t left = budget_bytes - MemoryBytes(weights, options);
    options.expert_place_count = static_cast<uint32_t>(
        std::min<uint64_t>(experts.count, options.expert_place_count + left / experts.place_bytes));
  }
  return options;
}

// Whether the head is pinned: what there is to choose from.
std::span<const bool> HeadChoices(const MemoryNeeds& needs) {
  static constexpr std::array<bool, 2> kChoices = {true, false};
  return std::span(kChoices).first(needs.exits_bytes > 0 ? 1 : 2);
}

uint64_t LeastWeightBytes(const MemoryNeeds& needs) {
  uint64_t least = UINT64_MAX;
  for (const bool pins_head : HeadChoices(needs)) {
    least = std::min(least, MemoryBytes(needs.weights, Least(needs.weights, pins_head)));
  }
  return least;
}

}  // namespace

uint64_t LeastBytes(const MemoryNeeds& needs) {
  return needs.FixedBytes() - needs.spared_bytes + LeastWeightBytes(needs);
}

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs, uint64_t budget_bytes) {
  const uint64_t fixed = needs.FixedBytes();
  const uint64_t least = LeastBytes(needs);
  const uint64_t least_weights = LeastWeightBytes(needs);
  if (budget_bytes < fixed + least_weights) {
    return InvalidArgument(
        "--memory: a budget of ", budget_bytes / kMebibyte,
        " MiB is too small; the least that works is ", Mebibytes(least), "MiB (the program ",
        Mebibytes(needs.process_bytes), ", the draft ",
        Mebibytes(needs.draft_weight_bytes + needs.draft.kv_bytes + needs.draft.scratch_bytes),
        ", the target's keys and values ", Mebibytes(needs.target.kv_bytes), ", its scratch ",
        Mebibytes(needs.target.scratch_bytes), ExitsText(needs), ", and of its weights ",
        Mebibytes(least_weights), "); a smaller --context takes less");
  }
  std::optional<StreamOptions> best;
  for (const bool pins_head : HeadChoices(needs)) {
    const std::optional<StreamOptions> options =
        Fit(needs.weights, pins_head, budget_bytes - fixed);
    if (!options) continue;
    if (!best || BytesPerPass(needs.weights, *options) < BytesPerPass(needs.weights, *best)) {
      best = options;
    }
  }
  const uint64_t weight_bytes = MemoryBytes(needs.weights, *best);
  return MemoryPlan{.needs = needs,
                    .stream = *best,
                    .budget_bytes = budget_bytes,
                    .least_bytes = least,
                    .planned_bytes = fixed + weight_bytes,
                    .weight_bytes = weight_bytes,
                    .bytes_per_pass = BytesPerPass(needs.weights, *best)};
}

PassReads MemoryPlan::reads() const {
  const ExpertShape& experts = needs.weights.experts;
  return {.row_bytes = bytes_per_pass,
          .expert_bytes = ExpertBytesPerPass(needs.weights, stream),
          .experts = {.count = experts.count, .used_count = experts.used_count}};
}

bool MemoryPlan::ReadsMost() const {
  const StreamShape& weights = needs.weights;
  if (weights.experts.count > 0) return false;
  const uint64_t all = std::accumulate(weights.layer_file_bytes.begin(),
                                       weights.layer_file_bytes.end(), weights.head_file_bytes);
  return 2 * bytes_per_pass > all;
}

}  // namespace outrider
