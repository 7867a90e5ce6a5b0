// The half of a layer that a row passes through alone, on a GPU: one for all rows, or experts of
// which each row takes a few (model/layers/feed_forward.h, expert_feed_forward.h).
//
// Which experts rows go to is chosen on the device and stays there, so that what is asked of it
// depends on nothing but how many rows there are, and may be recorded.
//
// Memory: taken by Create(), for `row_count_max` rows: of experts, a result of every row from each
//         one it goes to.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/gpu_row_math.h"
#include "common/model/model_spec.h"

namespace outrider {

class GpuFeedForward {
 public:
  // The longest rows that it multiplies with matrices, all together.
  static size_t ElementCountMax(const ModelSpec& spec, uint32_t row_count_max);

  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<GpuFeedForward>> Create(const ModelSpec& spec,
                                                                uint32_t row_count_max,
                                                                GpuRowMath& math,
                                                                DeviceQueue& queue);

  // x and out: [row_count, embedding_length], different ones.
  void Apply(const FeedForwardSpec& shape, const DeviceLayer& weights, const float* x,
             uint32_t row_count, float* out);

 private:
  // Rows that go through the same matrices, or are shared out among those of experts.
  struct Rows {
    const float* x;
    uint32_t count;
    ExpertTiles tiles = {};
  };

  GpuFeedForward(const ModelSpec& spec, GpuRowMath& math, DeviceQueue& queue)
      : spec_(spec), math_(math), queue_(queue) {}
  absl::Status TakeMemory(uint32_t row_count_max);

  void Pass(GateKind gate, uint32_t length, const DeviceFeedForward& weights, const Rows& rows,
            float* out);
  void PassShared(const FeedForwardSpec& shape, const DeviceLayer& weights, const float* x,
                  uint32_t row_count);
  ExpertTiles Route(const RouterSpec& router, const DeviceLinear& weights, const float* x,
                    uint32_t row_count);
  void PassExperts(const FeedForwardSpec& shape, const DeviceLayer& weights, const float* x,
                   uint32_t row_count, float* out);

  const ModelSpec& spec_;
  GpuRowMath& math_;
  DeviceQueue& queue_;

  DeviceBuffer gate_, up_;         // [rows or choices, length]
  DeviceBuffer router_logits_;     // [rows, experts]
  DeviceBuffer chosen_, weights_;  // [rows, used]
  DeviceBuffer place_of_;          // [rows, used]
  DeviceBuffer row_at_;            // by place
  DeviceBuffer tiles_;
  DeviceBuffer asked_, answers_;  // [choices, embedding], by place
  DeviceBuffer shared_;           // [rows, embedding]
  DeviceBuffer shared_gate_;      // [rows]
};

}  // namespace outrider
