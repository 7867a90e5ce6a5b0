// Layers with experts on a GPU: what common/model/layers/expert_feed_forward.h is to a processor.
//
//   transformer multiplies rows with the router:  experts.logits()
//   experts.Apply(shape, gate, weights, {x, shared answers}, row_count, out);
//
// Rows choose on the device, and nothing of that comes to the host: every choice has a place, so
// kernels are asked for rows * used_count of them whatever was chosen, and runs of as many rows can
// be replayed (kernels/expert_rows.h says how places are found, kernels/grouped_products.h how an
// expert's matrices are read once for all of its rows).
//
// Memory:  taken in Create(), for `row_count_max` rows: among others a result of every row from each
//          expert it chose. None where no layer has experts.
// Threads: one call at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/row_quants.h"
#include "common/model/model_spec.h"

namespace outrider {

class GpuExperts {
 public:
  // Spec and queue outlive it.
  static absl::StatusOr<std::unique_ptr<GpuExperts>> Create(const ModelSpec& spec,
                                                            uint32_t row_count_max,
                                                            DeviceQueue& queue);

  // Where rows' products with a layer's router go: [rows, expert_count].
  float* logits() const { return logits_.As<float>(); }

  // x and out: [rows, embedding_length]; by the logits. Where a layer has a shared expert, what that
  // makes of x: [rows, embedding_length].
  struct Rows {
    const float* x;
    const float* shared_answers;
    uint32_t count;
    float* out;
  };
  void Apply(const FeedForwardSpec& shape, gpu::Gate gate, const DeviceExperts& weights,
             const Rows& rows);

 private:
  struct Output {
    const DeviceLinear& linear;
    float* out;
  };

  GpuExperts(const ModelSpec& spec, DeviceQueue& queue) : spec_(spec), queue_(queue) {}
  absl::Status TakeMemory(uint32_t row_count_max);

  void Route(const RouterSpec& router, uint32_t row_count);
  void Multiply(const float* x, const uint32_t* which, uint32_t inputs,
                std::initializer_list<Output> outputs);
  gpu::GpuRows BringRows(const float* x, const uint32_t* which, uint32_t inputs,
                         ActivationForm form);

  const ModelSpec& spec_;
  DeviceQueue& queue_;

  DeviceBuffer logits_;
  DeviceBuffer choices_, place_of_;  // [rows, used]
  DeviceBuffer row_at_;              // by place
  DeviceBuffer groups_;              // [experts]
  DeviceBuffer exchanged_;           // [places, embedding]: floats that are asked, then the answers
  DeviceBuffer gate_, up_;           // [places, length]
  RowQuants quants_;                 // of places
  // Of the present layer and run.
  uint32_t place_count_ = 0;
  uint32_t group_count_ = 0;
};

}  // namespace outrider
