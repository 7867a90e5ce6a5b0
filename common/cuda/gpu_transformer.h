// The forward pass on a GPU: that of common/model/transformer.h, over kernels (common/cuda/kernels)
// that keep the same numeric contract.
//
//   transformer.Forward(batch, watch);
//   transformer.Project({0, 5});
//   OUTRIDER_ASSIGN_OR_RETURN(const LogitRows logits, transformer.Logits());
//
// Only tokens, places and angles go to the device in a run, and only logits that are asked for come
// back; and hidden states, where somebody watches a layer. The kernels of a run depend on nothing
// but how many rows it has, so they are asked for once and replayed from then on; not where
// somebody watches.
//
// Memory:  all of it taken in Create(), for `row_count_max` rows.
// Threads: one call at a time.
// Errors:  those of the queue, at the next Project() or watched layer.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/run_tables.h"
#include "common/engine/device_work.h"
#include "common/model/memory/batch.h"
#include "common/model/model_spec.h"
#include "common/model/transformer.h"

namespace outrider {

class GpuTransformer {
 public:
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<GpuTransformer>> Create(
      const ModelSpec& spec, const DeviceWeights& weights, const MemoryLayout& layout,
      const SequenceLimits& limits, std::span<const float> rope_divisors,
      uint32_t logit_row_count_max, DeviceQueue& queue, ThreadPool& pool);

  // Somebody who wants the residual stream [rows, embedding_length] after some layers.
  struct Watch {
    std::function<bool(uint32_t layer)> wants;
    std::function<void(uint32_t layer, std::span<const float> hidden)> see;
  };

  // `watch` may be null.
  absl::Status Forward(const Batch& batch, const Watch* watch);

  // Final norm and output matrix for some rows of the last Forward().
  void Project(std::span<const uint32_t> rows);
  // Of the last Project(): the logits, which stay until the next call; and the largest of each row.
  absl::StatusOr<LogitRows> Logits();
  absl::StatusOr<std::span<const gpu::BestLogit>> LargestLogits();
  // All that was asked for of the run is done.
  absl::Status Finish();

  // What the device has done since this was last asked.
  DeviceWork CollectWork() { return std::exchange(work_, {}); }

 private:
  // Readings of the device's clock.
  enum Mark : uint32_t { kBegin, kEnd };

  // One row of all of them, and what they are multiplied with.
  struct Output {
    const DeviceLinear& linear;
    float* out;
  };
  // Rows in one int8 form.
  struct Quants {
    DeviceBuffer quants;
    DeviceBuffer scales;
    DeviceBuffer sums;
  };

  GpuTransformer(const ModelSpec& spec, const DeviceWeights& weights, const MemoryLayout& layout,
                 uint32_t logit_row_count_max, DeviceQueue& queue)
      : spec_(spec),
        weights_(weights),
        layout_(layout),
        logit_row_count_max_(logit_row_count_max),
        queue_(queue) {}
  absl::Status TakeMemory(uint32_t row_count_max);

  void PutGiven(const Batch& batch);
  void Embed();
  void Layer(uint32_t layer);
  void Attend(uint32_t layer, const float* x);
  void FeedForward(uint32_t layer, const float* x);
  const float* Enter(const DevicePartNorms& norms);
  void Leave(const DevicePartNorms& norms);
  void AddPart();
  void NormHeads(const DeviceHeadNorm& norm, float* heads, uint32_t length);
  void Multiply(const float* x, uint32_t row_count, uint32_t inputs,
                std::initializer_list<Output> outputs);
  ActivationRows Quantize(const float* x, uint32_t row_count, uint32_t inputs, ActivationForm form);
  absl::Status Show(uint32_t layer, const Watch& watch);
  void OpenSpan();
  absl::Status CloseSpan();

  const ModelSpec& spec_;
  const DeviceWeights& weights_;
  const MemoryLayout& layout_;
  const uint32_t logit_row_count_max_;
  DeviceQueue& queue_;
  std::unique_ptr<RunTables> tables_;

  DeviceBuffer hidden_;  // [rows, embedding]: the residual stream
  DeviceBuffer normed_;  // [rows, embedding]: what enters a part of a layer
  DeviceBuffer part_;    // [rows, embedding]: what leaves it
  DeviceBuffer query_, key_, value_, attended_, gate_, up_;
  DeviceBuffer logits_, largest_, asked_;
  Quants per_32_, per_256_;

  std::vector<float> hidden_here_, logits_here_;
  std::vector<gpu::BestLogit> largest_here_;
  // Of the present or last run.
  uint32_t row_count_ = 0;
  uint32_t projected_count_ = 0;
  bool part_is_owed_ = false;  // to the residual stream
  // The device's time counts while a span is open: from where it gets something to do until that is
  // there. Between two of them the host chooses.
  bool span_is_open_ = false;

  DeviceWork work_;  // since it was last asked for
};

}  // namespace outrider
