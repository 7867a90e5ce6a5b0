// Products of rows with a model's matrices on a GPU.
//
//   math.Multiply(x, row_count, 4096, {{weights.gate, gate}, {weights.up, up}});
//
// Rows are quantised once into whatever forms the matrices ask for, and multiplied with each.
//
// Memory: for rows in int8, taken by Create().
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"

namespace outrider {

// Rows that are shared out among experts (kernels/expert_rows.h); none: all go to one matrix.
struct ExpertTiles {
  const gpu::ExpertTile* tiles = nullptr;
  uint32_t count = 0;
};

class GpuRowMath {
 public:
  struct Output {
    const DeviceLinear& linear;
    float* out;  // [rows, outputs]
  };
  // For rows of so many numbers, all together. `what` they are stands in errors; the queue outlives
  // it.
  static absl::StatusOr<std::unique_ptr<GpuRowMath>> Create(DeviceQueue& queue,
                                                            size_t element_count_max,
                                                            std::string_view what);

  // x: [row_count, inputs]
  void Multiply(const float* x, uint32_t row_count, uint32_t inputs,
                std::initializer_list<Output> outputs, ExpertTiles tiles = {});

 private:
  // Rows in one int8 form.
  struct Quants {
    DeviceBuffer quants;
    DeviceBuffer scales;
    DeviceBuffer sums;
  };

  explicit GpuRowMath(DeviceQueue& queue) : queue_(queue) {}
  ActivationRows Quantize(const float* x, uint32_t row_count, uint32_t inputs, ActivationForm form);

  DeviceQueue& queue_;
  Quants per_32_, per_256_;
};

}  // namespace outrider
