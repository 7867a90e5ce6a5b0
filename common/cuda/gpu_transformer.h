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
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/gpu_feed_forward.h"
#include "common/cuda/gpu_row_math.h"
#include "common/cuda/gpu_shortlists.h"
#include "common/cuda/run_tables.h"
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
  // Of the last Project(): the logits, and few of each row. They stay until the next call.
  absl::StatusOr<LogitRows> Logits();
  absl::StatusOr<std::span<const Shortlist>> Shortlists(std::span<const Wish> wishes) {
    return shortlists_->Find(logits_.As<float>(), wishes);
  }

 private:
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
  void PassParallel(uint32_t layer);
  void FeedForward(uint32_t layer, const float* x);
  const float* Enter(const DevicePartNorms& norms);
  void Leave(const DevicePartNorms& norms);
  void AddPart();
  void NormHeads(const DeviceHeadNorm& norm, float* heads, uint32_t length);
  absl::Status Show(uint32_t layer, const Watch& watch);

  const ModelSpec& spec_;
  const DeviceWeights& weights_;
  const MemoryLayout& layout_;
  const uint32_t logit_row_count_max_;
  DeviceQueue& queue_;
  std::unique_ptr<RunTables> tables_;
  std::unique_ptr<GpuRowMath> math_;
  std::unique_ptr<GpuFeedForward> feed_forward_;
  std::unique_ptr<GpuShortlists> shortlists_;

  DeviceBuffer hidden_;  // [rows, embedding]: the residual stream
  DeviceBuffer normed_;  // [rows, embedding]: what enters a part of a layer
  DeviceBuffer part_;    // [rows, embedding]: what leaves it
  DeviceBuffer query_, key_, value_, attended_;
  DeviceBuffer logits_, asked_;

  std::vector<float> hidden_here_, logits_here_;
  // Of the present or last run.
  uint32_t row_count_ = 0;
  uint32_t projected_count_ = 0;
  bool part_is_owed_ = false;  // to the residual stream
};

}  // namespace outrider
