// The engine on this machine's processor whose weights are larger than memory: layers come from flash
// while it computes (model/weights/streaming).
//
//   OUTRIDER_ASSIGN_OR_RETURN(FlashEngine flash,
//                             LoadFlashEngine(std::move(model), path, {}, {.pinned_layer_count = 8},
//                                             KernelsFor(BestIsa()), *pool, progress));
//   ... EngineTarget::Create(std::move(flash.engine)) ...
//   flash.weights->stats()                       // what has been read, and waited for
//
// It says what LoadCpuEngine()'s says, to the bit, and has the same numerics id: only the time of a
// run is another. A run reads all layers that are not pinned, once, however many rows it has; so
// prompts go in runs as long as the engine takes (EngineOptions::row_count_max), and a device plans
// how long that is.
//
// Memory: as CpuEngine has it, and what the weights take (StreamingWeights::memory_bytes()).
// Errors: of loading, as LoadCpuEngine() and StreamingWeights::Open(); a run fails with what could
//         not be read for it, and the next one tries again.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/streaming/streaming_weights.h"

namespace outrider {

struct FlashEngine {
  // The engine's, for who counts what they read, or takes their waits.
  std::shared_ptr<StreamingWeights> weights;
  std::unique_ptr<CpuEngine> engine;
};

// As LoadCpuEngine(). The engine keeps the model open.
absl::StatusOr<FlashEngine> LoadFlashEngine(std::shared_ptr<const ModelFile> model,
                                            const std::string& path, const EngineOptions& options,
                                            const StreamOptions& stream, const Kernels& kernels,
                                            ThreadPool& pool, const LoadProgress& progress);

}  // namespace outrider
