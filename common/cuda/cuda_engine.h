// The engine on an NVIDIA GPU.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
//                             LoadCudaEngine(*model, path, 0, {}, kernels, *pool, progress));
//
// Errors: besides those of gpu_engine.h, FailedPrecondition, in a sentence, where the build or the
//         machine has no GPU, its driver is too old for this build, there is no such ordinal, or
//         the GPU is older than what kernels are compiled for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

// `path` starts messages about the model. Kernels and pool outlive the engine. `progress` may be
// null.
absl::StatusOr<std::unique_ptr<Engine>> LoadCudaEngine(const ModelFile& model,
                                                       const std::string& path, uint32_t ordinal,
                                                       const EngineOptions& options,
                                                       const Kernels& kernels, ThreadPool& pool,
                                                       const LoadProgress& progress);

}  // namespace outrider
