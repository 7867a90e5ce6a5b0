// What of a device's memory goes where, when the target is larger than it: one owner of all of it.
//
//   MemoryNeeds needs = {.process_bytes = ..., .draft = ..., .weights = ShapeOf(*target, spec)};
//   OUTRIDER_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(needs, 512 << 20));
//   LoadFlashEngine(target, path, options, plan.stream, ...)
//
//   budget   | process | draft | keys, values | scratch | kept | slots | pinned ........ | left |
//
// All but the last two is needed whatever the budget is, but for scratch, which is for runs of as many
// rows as there are (run_rows.h). There are two slots: one is read while the
// other is computed, so that a read never waits for more than what is computed. A third would hold
// what is read while nothing is computed (while the draft runs), once a pass at the most, and a
// layer that is pinned in its place is not read at all. What is left pins layers, and the head
// before them or not, whichever leaves least to be read (exits look into the head between any two
// layers, so with those it stays); and of a model with experts what is left then is for more of
// them: a layer is read by every pass, an expert by those that choose it.
//
// A pure function of numbers: the same here, in `outrider plan` and in a test.
//
// Errors: InvalidArgument, naming the least budget that works.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/planner/pass_reads.h"
#include "common/engine/engine_memory.h"
#include "common/model/weights/streaming/stream_options.h"
#include "common/model/weights/streaming/stream_shape.h"

namespace outrider {

struct MemoryNeeds {
  uint64_t process_bytes = 0;  // the program, tokenizers, sessions: what is there, and what will be
  uint64_t draft_weight_bytes = 0;  // none of a draft's: no model drafts
  EngineMemory draft = {};
  EngineMemory target = {};
  uint32_t run_rows = 0;      // of the target, which its scratch is for (run_rows.h):
  uint64_t spared_bytes = 0;  // so much less is needed with the fewest that make sense
  uint64_t exits_bytes = 0;   // of the target's exits, which look into its head; none: it has none
  StreamShape weights = {};   // the target's

  // Whatever the budget is, without the target's weights.
  uint64_t FixedBytes() const {
    return process_bytes + draft_weight_bytes + draft.kv_bytes + draft.scratch_bytes +
           target.kv_bytes + target.scratch_bytes + exits_bytes;
  }
};

struct MemoryPlan {
  MemoryNeeds needs = {};
  StreamOptions stream = {};
  uint64_t budget_bytes = 0;
  uint64_t least_bytes = 0;    // that would do
  uint64_t planned_bytes = 0;  // of the budget
  uint64_t weight_bytes = 0;   // of those, the target's
  uint64_t bytes_per_pass = 0;

  // What passes read, by their rows.
  PassReads reads() const;
  // Whether passes read most of the weights, whichever rows they have: all but experts, which are
  // read by those rows that choose them.
  bool ReadsMost() const;
};

// What a budget has to be for PlanMemory(), with runs of the fewest rows.
uint64_t LeastBytes(const MemoryNeeds& needs);

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs, uint64_t budget_bytes);

}  // namespace outrider
