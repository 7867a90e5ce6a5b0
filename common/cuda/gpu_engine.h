// The engine on a GPU: the contract of engine/engine.h over a DeviceQueue.
//
// Sequences, trees and pages are what they are on this machine's processor (model/memory); what is
// in the pages, the weights and the activations lie on the device. Rows are computed by kernels
// that keep kernels/NUMERICS.md, or bits of their own for products of halves, so what it says
// depends on nothing but what it is asked, to the bit. Plain greedy choices are made there, and ids
// come to the host; for all others logits do, and choosing is the same code for every engine
// (engine/answers.h). Exits score their rows there too, beside the layers to come (device_exits.h),
// and what they say is told while the device computes those (engine/exit_heads.h), so a guess is on
// its way before the verdict.
//
// Memory: weights, activations for `row_count_max` rows and pages of `kv_bytes`, all of it of the
//         device and taken when it is made. Exits take rows of states there and here, and what
//         device_exits.h says.
// Errors: as engine.h says; Unimplemented for what has no kernels on a GPU (device_weights.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/cuda/device_exits.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/gpu_transformer.h"
#include "common/engine/answers.h"
#include "common/engine/engine.h"
#include "common/engine/exit_heads.h"
#include "common/engine/sequence_table.h"
#include "common/kernels/kernels.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/page_memory.h"
#include "common/model/memory/sequence_memory.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

class GpuEngine final : public Engine {
 public:
  // What the host's part is computed with.
  struct Host {
    const Kernels& kernels;
    ThreadPool& pool;
  };

  // `weights` are uploaded and not looked at afterwards. Kernels and pool outlive the engine.
  static absl::StatusOr<std::unique_ptr<GpuEngine>> Create(const ModelSpec& spec,
                                                           ResidentWeights& weights,
                                                           const Host& host,
                                                           const EngineOptions& options,
                                                           std::unique_ptr<DeviceQueue> queue);

  const EngineInfo& info() const override { return info_; }
  const ModelSpec& spec() const override { return spec_; }
  const Ledger& ledger() const override { return pages_->ledger(); }

  absl::StatusOr<SequenceId> Open() override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override;
  void Close(SequenceId sequence) override;
  uint32_t Length(SequenceId sequence) const override { return At(sequence).memory.length(); }
  absl::Status Reserve(SequenceId sequence, uint32_t cell_count, uint32_t node_count) override {
    return At(sequence).memory.Reserve(cell_count, node_count);
  }
  absl::Status Hear(SequenceId sequence, std::span<const float> states) override;
  absl::Status Run(EngineRun& run) override;
  void Commit(SequenceId sequence, uint32_t chain_count, std::span<const uint32_t> path) override {
    At(sequence).memory.Commit(chain_count, path);
  }
  void DropNodes(SequenceId sequence) override { At(sequence).memory.DropNodes(); }
  uint32_t Truncate(SequenceId sequence, uint32_t length) override {
    return At(sequence).memory.Truncate(length);
  }
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink) override;
  void DetachExits() override;
  void SwitchExit(uint32_t exit, bool on) override;
  std::optional<DeviceWork> CollectDeviceWork() override { return transformer_->CollectWork(); }

 private:
  struct Sequence {
    Sequence(PageMemory& pages, const SequenceLimits& limits) : memory(pages, limits) {}

    uint64_t id = 0;  // 0: nobody's
    SequenceMemory memory;
    uint64_t last_run = 0;
  };

  GpuEngine(const ModelSpec& spec, const Host& host, EngineInfo info,
            std::unique_ptr<DeviceQueue> queue)
      : spec_(spec), host_(host), info_(std::move(info)), queue_(std::move(queue)) {}
  absl::Status TakeMemory(ResidentWeights& weights, uint64_t kv_bytes);

  Sequence& At(SequenceId sequence) const;
  void AddPart(const RunPart& part);
  absl::Status Compute(EngineRun& run);
  absl::Status Answer();
  absl::StatusOr<bool> AnswerByLargest();
  void ListWatched(const EngineRun& run);
  std::optional<uint32_t> ExitAt(uint32_t layer) const;
  void BeginExits(const EngineRun& run);
  void See(const EngineRun& run, const GpuTransformer::WatchedLayer& watched, uint32_t slot,
           std::span<const float> states);

  const ModelSpec spec_;
  const Host host_;
  const EngineInfo info_;
  const std::unique_ptr<DeviceQueue> queue_;  // before all that has memory of it
  DeviceWeights weights_;
  std::unique_ptr<PageMemory> pages_;
  std::unique_ptr<GpuTransformer> transformer_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Answers> answers_;
  std::vector<TokenId> largest_;               // by row of a band
  std::unique_ptr<DeviceExits> device_exits_;  // these two are null: none are attached
  std::unique_ptr<ExitHeads> exits_;
  SequenceTable<Sequence> sequences_;

  uint64_t run_count_ = 0;
  // Of the present run.
  bool exits_look_ = false;                            // at some layers
  bool exits_have_begun_ = false;                      // and have been told of its walks
  std::vector<GpuTransformer::WatchedLayer> watched_;  // layers after which somebody looks
};

}  // namespace outrider
