#include "client/planner/memory_needs.h"

#include "common/base/process_memory.h"
#include "common/base/status.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

absl::StatusOr<MemoryNeeds> NeedsOf(const PlannedModel& target, const PlannedModel* draft,
                                    uint64_t growth_bytes) {
  MemoryNeeds needs;
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(target.model, target.path));
  OUTRIDER_ASSIGN_OR_RETURN(needs.target,
                            CpuEngineMemory(spec, target.options, target.thread_count));
  needs.weights = ShapeOf(target.model, spec);
  if (draft != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec drafts, ModelSpec::From(draft->model, draft->path));
    OUTRIDER_ASSIGN_OR_RETURN(needs.draft,
                              CpuEngineMemory(drafts, draft->options, draft->thread_count));
    needs.draft_weight_bytes =
        ResidentWeights::MemoryBytes(draft->model, drafts, draft->thread_count);
  }
  needs.process_bytes = ResidentBytes() + growth_bytes;
  return needs;
}

absl::StatusOr<uint64_t> ExitsBytes(const TrainedExits& exits, const PlannedModel& target,
                                    const MemoryNeeds& needs) {
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(target.model, target.path));
  return ExitsMemory(exits, spec, target.options, needs.weights.head_bytes, target.thread_count);
}

absl::StatusOr<MemoryNeeds> NeedsOfRows(const MemoryNeeds& needs, PlannedModel target,
                                        const TrainedExits* exits, uint32_t row_count) {
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(target.model, target.path));
  MemoryNeeds of_rows = needs;
  target.options.row_count_max = row_count;
  OUTRIDER_ASSIGN_OR_RETURN(of_rows.target,
                            CpuEngineMemory(spec, target.options, target.thread_count));
  if (exits != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(of_rows.exits_bytes, ExitsBytes(*exits, target, of_rows));
  }
  of_rows.run_rows = row_count;
  of_rows.spared_bytes = of_rows.FixedBytes() - needs.FixedBytes();
  return of_rows;
}

}  // namespace outrider
