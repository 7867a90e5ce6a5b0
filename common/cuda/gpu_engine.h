// The engine on a GPU: the contract of engine/engine.h over a DeviceQueue.
//
// Sequences, trees and pages are what they are on this machine's processor (model/memory); what is
// in the pages, the weights and the activations lie on the device. Rows are computed by kernels
// that keep kernels/NUMERICS.md, so what it says depends on nothing but what it is asked, to the
// bit. Where choosers want few logits of a row (engine/shortlist.h), those are found there and come
// to the host; for all others all logits do. Choosing is the same code for every engine
// (engine/answers.h). Hidden states come too, where exits stand (engine/exit_heads.h).
//
// Memory: weights, activations for `row_count_max` rows and pages of `kv_bytes`, all of it of the
//         device and taken when it is made.
// Errors: as engine.h says; Unimplemented for what has no kernels on a GPU (device_weights.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/gpu_transformer.h"
#include "common/engine/answers.h"
#include "common/engine/engine.h"
#include "common/engine/host_watch.h"
#include "common/engine/paged_engine.h"
#include "common/model/memory/batch.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

class GpuEngine final : public PagedEngine {
 public:
  // `weights` are uploaded and not looked at afterwards. Kernels and pool outlive the engine.
  static absl::StatusOr<std::unique_ptr<GpuEngine>> Create(const ModelSpec& spec,
                                                           ResidentWeights& weights,
                                                           HostSource source,
                                                           const EngineOptions& options,
                                                           std::unique_ptr<DeviceQueue> queue);

  absl::Status Hear(SequenceId sequence, std::span<const float> states) override;
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink) override {
    return watch_.AttachExits(exits, path, options, sink);
  }
  void DetachExits() override { watch_.DetachExits(); }
  void SwitchExit(uint32_t exit, bool on) override { watch_.SwitchExit(exit, on); }

 private:
  GpuEngine(const ModelSpec& spec, HostSource source, EngineInfo info,
            std::unique_ptr<DeviceQueue> queue)
      : PagedEngine(spec, std::move(info)),
        pool_(source.pool),
        watch_(this->spec(), this->info(), std::move(source)),
        queue_(std::move(queue)) {}
  absl::Status TakeMemory(ResidentWeights& weights, uint64_t kv_bytes);

  absl::Status Compute(const Batch& batch, EngineRun& run) override;
  absl::StatusOr<bool> AnswerByLists();
  absl::Status Forward(const Batch& batch, const EngineRun& run);

  ThreadPool& pool_;
  HostWatch watch_;
  const std::shared_ptr<DeviceQueue> queue_;  // before all that has memory of it; pages have it too
  DeviceWeights weights_;
  std::unique_ptr<GpuTransformer> transformer_;
  std::unique_ptr<Answers> answers_;
};

}  // namespace outrider
