// How many rows a run of a target on flash may have: by that prompts are cut into runs. Each run reads
// all that does not stay, however many rows it has. So with few rows a prompt waits for flash; and
// with many they take memory in which layers would stay.
//
//   rows of a run     tokens of a prompt, and besides them a pass: its root and its nodes
//
// Of the prompt 256 tokens, or more: the least with which computing is as long as what it reads, but no
// more than a context has, and than what hardly keeps a layer from staying: every pass of a text
// would read that layer, and a prompt is read once. A run packs what it reads besides; so there are
// up to 1024 where nothing more is read for that, in memory that is left over. Where a budget has no
// room for 256 there are half of them, or half of those.
//
//   const RunLimits limits = RowsFor(context_length, node_count_max);
//   uint32_t rows = RowsThatFit(limits, plan_of);
//   ... where passes read something, and the machine has been looked at (machine_probe.h) ...
//   if (rows == limits.usual) rows = RowsThatHide(limits, machine, plan_of);
//
// A pure function of numbers, as its caller's plans are.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/planner/flash_forecast.h"
#include "client/planner/memory_plan.h"

namespace outrider {

struct RunLimits {
  uint32_t pass = 1;   // of these rows, a pass's
  uint32_t usual = 0;  // with 256 tokens of a prompt
  uint32_t most = 0;   // with as many as a context has
};

RunLimits RowsFor(uint32_t context_length, uint32_t node_count_max);
// With the fewest tokens of a prompt that make sense.
uint32_t LeastRows(const RunLimits& limits);

// A plan whose runs have so many rows; what PlanMemory() says.
using PlanOfRows = std::function<absl::StatusOr<MemoryPlan>(uint32_t row_count)>;

// The usual number, or the most below it for which there is a plan; the least where there is none.
uint32_t RowsThatFit(const RunLimits& limits, const PlanOfRows& plan_of);
// From the usual number on, for which there is a plan: the least whose computing hides its reads, as far
// as passes read hardly more for it, and then up to 1024, as far as they read no more. Of `machine`
// all but what is read counts.
uint32_t RowsThatHide(const RunLimits& limits, const FlashSetting& machine,
                      const PlanOfRows& plan_of);

}  // namespace outrider
