// What a target on flash, and a draft beside it, will take of this process's memory: read from their
// files' headers, and from what the process has already.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/planner/memory_plan.h"
#include "common/engine/engine.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"

namespace outrider {

// A model, and what its engine is made for.
struct PlannedModel {
  const ModelFile& model;
  const std::string& path;
  EngineOptions options;
  uint32_t thread_count;
};

// After tokenizers have been opened, which are most of what the process has by then; what it will
// have besides models is `growth_bytes`. `draft` may be null. Exits of the target are not among it.
// Errors: those of making the engines.
absl::StatusOr<MemoryNeeds> NeedsOf(const PlannedModel& target, const PlannedModel* draft,
                                    uint64_t growth_bytes);
// MemoryNeeds::exits_bytes of such a target, whose needs these are.
absl::StatusOr<uint64_t> ExitsBytes(const TrainedExits& exits, const PlannedModel& target,
                                    const MemoryNeeds& needs);
// The same needs where runs of the target have so many rows, and not the fewest that make sense, as in
// its options and in `needs`. `exits` are those that are counted among these; null: none are.
absl::StatusOr<MemoryNeeds> NeedsOfRows(const MemoryNeeds& needs, PlannedModel target,
                                        const TrainedExits* exits, uint32_t row_count);

}  // namespace outrider
