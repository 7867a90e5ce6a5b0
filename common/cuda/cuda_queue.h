// A DeviceQueue of an NVIDIA GPU: one stream of its own, and one beside it.
//
// Errors of OpenCudaQueue() are FailedPrecondition, each in a sentence: no driver or one too old,
// no GPU or none of that ordinal, one without kernels in this build.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<DeviceQueue>> OpenCudaQueue(uint32_t ordinal);

}  // namespace outrider
