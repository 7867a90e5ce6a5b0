// Rows in the form that a product takes them in: as they are, or quantised to int8 into memory of
// the device that the next rows of that form overwrite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/kernels/activations.h"

namespace outrider {

class RowQuants {
 public:
  // For so many rows of so many inputs at the most. ResourceExhausted when there is no memory for
  // `what`.
  static absl::StatusOr<RowQuants> Create(DeviceQueue& queue, size_t row_count_max,
                                          size_t inputs_max, std::string_view what);

  // Of x [any, inputs], on the device: row i is row which[i] of it, or where that is null row i,
  // which floats cannot but be.
  gpu::GpuRows Take(const float* x, uint32_t row_count, uint32_t inputs, ActivationForm form,
                    const uint32_t* which = nullptr);

 private:
  // In one int8 form.
  struct Quants {
    DeviceBuffer quants;
    DeviceBuffer scales;
    DeviceBuffer sums;
  };

  DeviceQueue* queue_ = nullptr;
  Quants per_32_, per_256_;
};

}  // namespace outrider
