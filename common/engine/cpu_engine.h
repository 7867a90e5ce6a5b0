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

#include <algorithm>
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
#include "common/engine/projection_choice.h"
#include "common/engine/sequence_table.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/layer_observer.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/page_memory.h"
#include "common/model/memory/sequence_memory.h"
#include "common/model/transformer.h"
#include "common/model/weights/resident_weights.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

class CpuEngine final : public Engine {
 public:
  // From weights in any store, which engines that take turns may share; `content_hash` is that of
  // their bytes. Kernels and pool outlive the engine. InvalidArgument when the options contradict
  // the model, naming what would work.
  static absl::StatusOr<std::unique_ptr<CpuEngine>> Create(
      const ModelSpec& spec, std::shared_ptr<WeightStore> weights, uint64_t content_hash,
      const EngineOptions& options, const Kernels& kernels, ThreadPool& pool);

  // Rows whose logits are kept at once: the largest walk, and a good band of small ones.
  static uint32_t LogitRows(uint32_t row_count_max, uint32_t node_count_max) {
    constexpr uint32_t kBand = 64;
    return std::min(row_count_max, std::max(kBand, node_count_max + 1));
  }

  const EngineInfo& info() const override { return info_; }
  const ModelSpec& spec() const override { return spec_; }
  const Ledger& ledger() const override { return pages_->ledger(); }

  absl::StatusOr<SequenceId> Open() override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override;
  void Close(SequenceId sequence) override;
  uint32_t Length(SequenceId sequence) const override;
  absl::Status Reserve(SequenceId sequence, uint32_t cell_count, uint32_t node_count) override;
  absl::Status Hear(SequenceId sequence, std::span<const float> states) override;
  absl::Status Run(EngineRun& run) override;
  void Commit(SequenceId sequence, uint32_t chain_count, std::span<const uint32_t> path) override;
  void DropNodes(SequenceId sequence) override;
  uint32_t Truncate(SequenceId sequence, uint32_t length) override;
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink) override;
  void DetachExits() override;
  void SwitchExit(uint32_t exit, bool on) override;

 private:
  class RunObserver;

  struct Sequence {
    Sequence(PageMemory& pages, const SequenceLimits& limits) : memory(pages, limits) {}

    uint64_t id = 0;  // 0: nobody's
    SequenceMemory memory;
    uint64_t last_run = 0;
  };

  CpuEngine(const ModelSpec& spec, std::shared_ptr<WeightStore> weights, EngineInfo info,
            Projection projection, const Kernels& kernels, ThreadPool& pool);
  absl::Status TakeMemory(uint64_t kv_bytes);

  Sequence& At(SequenceId sequence) const;
  void AddPart(const RunPart& part);
  absl::Status Compute(EngineRun& run);
  absl::Status Forward(const EngineRun& run);
  absl::Status Answer(EngineRun& run);

  const ModelSpec spec_;
  const std::shared_ptr<WeightStore> weights_;
  const EngineInfo info_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  std::unique_ptr<PageMemory> pages_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Answers> answers_;
  ProjectionChoice projection_;
  std::optional<Lease<HeadWeights>> exits_head_;
  std::unique_ptr<ExitHeads> exits_;  // null: none are attached
  SequenceTable<Sequence> sequences_;

  uint64_t run_count_ = 0;
};

// `path` starts messages about the model. Kernels and pool outlive the engine.
absl::StatusOr<std::unique_ptr<CpuEngine>> LoadCpuEngine(const ModelFile& model,
                                                         const std::string& path,
                                                         const EngineOptions& options,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         const LoadProgress& progress);

}  // namespace outrider
