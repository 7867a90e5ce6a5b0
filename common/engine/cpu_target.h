// The target on this machine's processor, from a model file: a CpuEngine and what makes a target of
// it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/engine_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

// As LoadCpuEngine() and EngineTarget::Create().
absl::StatusOr<std::unique_ptr<EngineTarget>> LoadCpuTarget(
    const ModelFile& model, const std::string& path, const EngineOptions& options,
    const Kernels& kernels, ThreadPool& pool, const LoadProgress& progress);

}  // namespace outrider
