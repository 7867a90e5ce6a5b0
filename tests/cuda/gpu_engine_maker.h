// The engine on a GPU that tests are about: over one that this machine plays (emulated_engine.cc),
// or over a real one (bench/cuda_check).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/cuda/device_queue.h"
#include "common/engine/engine.h"

namespace outrider {

// A queue of the GPU in question.
absl::StatusOr<std::unique_ptr<DeviceQueue>> OpenQueue();

// The pool outlives it.
absl::StatusOr<std::unique_ptr<Engine>> MakeGpuEngine(const std::string& path,
                                                      const EngineOptions& options,
                                                      ThreadPool& pool,
                                                      std::unique_ptr<DeviceQueue> queue);

}  // namespace outrider
