// The one place where cudaError_t becomes a Status: a sentence that says what to do.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace outrider {

// `context` starts the message.
absl::Status CudaStatus(cudaError_t error, std::string_view context);

}  // namespace outrider
