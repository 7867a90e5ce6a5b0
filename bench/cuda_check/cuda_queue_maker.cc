#include "bench/cuda_check/the_gpu.h"
#include "common/cuda/cuda_queue.h"
#include "tests/cuda/gpu_engine_maker.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<DeviceQueue>> OpenQueue() {
  return OpenCudaQueue(GpuOrdinal());
}

}  // namespace outrider
