// The engine on this machine's processor: our own transformer over weights in any store.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(4));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<CpuEngine> engine,
//                             LoadCpuEngine(*model, path, {}, KernelsFor(BestIsa()), *pool,
//                                           progress));
//
// What it says depends on nothing but what it is asked, to the bit (kernels/NUMERICS.md).
//
// Memory: weights, activations for `row_count_max` rows, and sequence memory of `kv_bytes`; all of
//         it taken when it is made, resident only as far as used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/answers.h"
#include "common/engine/engine.h"
#include "common/engine/exit_heads.h"
#include "common/engine/paged_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/layer_observer.h"
#include "common/model/memory/batch.h"
#include "common/model/transformer.h"
#include "common/model/weights/resident_weights.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

class CpuEngine final : public PagedEngine {
 public:
  // From weights in any store, which engines that take turns may share; `content_hash` is that of
  // their bytes. Kernels and pool outlive the engine. InvalidArgument when the options contradict
  // the model, naming what would work.
  static absl::StatusOr<std::unique_ptr<CpuEngine>> Create(
      const ModelSpec& spec, std::shared_ptr<WeightStore> weights, uint64_t content_hash,
      const EngineOptions& options, const Kernels& kernels, ThreadPool& pool);

  absl::Status Hear(SequenceId sequence, std::span<const float> states) override;
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink) override;
  void DetachExits() override;
  void SwitchExit(uint32_t exit, bool on) override;

 private:
  class RunObserver;

  CpuEngine(const ModelSpec& spec, std::shared_ptr<WeightStore> weights, EngineInfo info,
            const Kernels& kernels, ThreadPool& pool);
  absl::Status TakeMemory(uint64_t kv_bytes);

  absl::Status Compute(const Batch& batch, EngineRun& run) override;
  absl::Status Forward(const Batch& batch, const EngineRun& run);
  absl::Status Answer(EngineRun& run);

  const std::shared_ptr<WeightStore> weights_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Answers> answers_;
  std::optional<Lease<HeadWeights>> exits_head_;
  std::unique_ptr<ExitHeads> exits_;  // null: none are attached
};

// `path` starts messages about the model. Kernels and pool outlive the engine.
absl::StatusOr<std::unique_ptr<CpuEngine>> LoadCpuEngine(const ModelFile& model,
                                                         const std::string& path,
                                                         const EngineOptions& options,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         const LoadProgress& progress);

}  // namespace outrider
