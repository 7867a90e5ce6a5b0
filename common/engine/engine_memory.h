// What an engine on this machine's processor will take of memory beside its weights, before it is
// made: what a planner goes by (cpu_engine.h takes it).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/formats/models/exits_file.h"
#include "common/model/model_spec.h"

namespace outrider {

struct EngineMemory {
  uint64_t kv_bytes = 0;       // what layers keep of sequences, as far as it is used
  uint64_t scratch_bytes = 0;  // of a run as large as it may be, at the most
};

// As CpuEngine::Create() with these options, and a pool of so many threads. Its errors.
absl::StatusOr<EngineMemory> CpuEngineMemory(const ModelSpec& spec, const EngineOptions& options,
                                             uint32_t thread_count);

// As Engine::AttachExits() of such an engine, scoring candidates, and until the exits themselves
// are let go of. `head_bytes` is what the model's head takes.
uint64_t ExitsMemory(const TrainedExits& exits, const ModelSpec& spec, const EngineOptions& options,
                     uint64_t head_bytes, uint32_t thread_count);

}  // namespace outrider
