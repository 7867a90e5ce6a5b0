// Rows in the form that a product takes them in: as they are, split into terms besides, or
// quantised to int8; in memory of the device that the next rows of that form overwrite. And room
// for what blocks of one product have to tell one another.
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
  // For so many rows of so many inputs at the most, and products whose blocks have room for so many
  // outputs, or 0: none. ResourceExhausted when there is no memory for `what`.
  static absl::StatusOr<RowQuants> Create(DeviceQueue& queue, size_t row_count_max,
                                          size_t inputs_max, size_t outputs_max,
                                          std::string_view what);

  // Of x [any, inputs], on the device: row i is row which[i] of it, or where that is null row i,
  // which floats cannot but be.
  gpu::GpuRows Take(const float* x, uint32_t row_count, uint32_t inputs, ActivationForm form,
                    const uint32_t* which = nullptr);
  // Adds the terms of floats, for weights that take them (kernels/product_choice.h).
  void Split(gpu::GpuRows& rows);

  gpu::SumsRoom room() const { return {sums_.As<float>(), counters_.As<uint32_t>()}; }

 private:
  // In one int8 form.
  struct Quants {
    DeviceBuffer quants;
    DeviceBuffer scales;
    DeviceBuffer sums;
  };

  DeviceQueue* queue_ = nullptr;
  Quants per_32_, per_256_;
  DeviceBuffer terms_;
  DeviceBuffer sums_, counters_;
};

}  // namespace outrider
