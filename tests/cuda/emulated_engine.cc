#include "common/cuda/testing/emulated_queue.h"
#include "tests/cuda/gpu_engine_maker.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<DeviceQueue>> OpenQueue() {
  return std::make_unique<EmulatedQueue>();
}

}  // namespace outrider
