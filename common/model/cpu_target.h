// The target on this machine's processor.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(4));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<CpuTarget> target,
//                             CpuTarget::Load(*model, path, {}, KernelsFor(BestIsa()), *pool,
//                                             progress));
//
// Passes of several sequences, as many as there are rows for, go through the transformer together;
// prompts go through it in chunks of all its rows. Neither touches a bit of anybody's results.
//
// Memory: weights, activations for `row_count_max` rows, and a KV cache of `kv_bytes`; all of it
//         taken when it is made, resident only as far as used.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/batch.h"
#include "common/model/kv_cache.h"
#include "common/model/kv_sequence.h"
#include "common/model/model_spec.h"
#include "common/model/pass_observer.h"
#include "common/model/resident_weights.h"
#include "common/model/target.h"
#include "common/model/target_rules.h"
#include "common/model/transformer.h"
#include "common/model/weight_store.h"
#include "common/tokens/chooser.h"

namespace outrider {

struct CpuTargetOptions {
  uint32_t context_length = 0;      // of one sequence; 0: what the model was made for
  uint32_t sequence_count_max = 1;  // at a time
  uint32_t node_count_max = 63;     // drafted nodes of one pass
  uint32_t row_count_max = 256;     // of one run of the transformer, and so of a prompt's chunk
  uint64_t kv_bytes = 0;            // of the cache; 0: enough for all sequences at their longest
};

class CpuTarget final : public Target {
 public:
  // `path` starts messages about the model. Kernels and pool outlive the target.
  static absl::StatusOr<std::unique_ptr<CpuTarget>> Load(const ModelFile& model,
                                                         const std::string& path,
                                                         const CpuTargetOptions& options,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         const LoadProgress& progress);

  // From weights in any store; `content_hash` is that of their bytes. InvalidArgument when the
  // options contradict the model, naming what would work.
  static absl::StatusOr<std::unique_ptr<CpuTarget>> Create(
      const ModelSpec& spec, std::unique_ptr<WeightStore> weights, uint64_t content_hash,
      const CpuTargetOptions& options, const Kernels& kernels, ThreadPool& pool);

  const TargetInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> CreateSequence() override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence) override;
  absl::Status Close(SequenceId sequence) override;
  absl::Status Truncate(SequenceId sequence, uint32_t length) override;
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override;
  absl::Status Prefill(SequenceId sequence, std::span<const TokenId> tokens,
                       const PromptProgress& progress) override;
  void Run(std::span<const Pass> passes, std::span<PassResult> results) override;
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override;

  // Of the runs to come; null: nobody. It outlives them.
  void Observe(PassObserver* observer) { observer_ = observer; }

  const ModelSpec& spec() const { return spec_; }
  uint64_t content_hash() const { return content_hash_; }
  const OuterWeights& outer_weights() const { return weights_->outer(); }
  uint32_t row_count_max() const { return transformer_->row_count_max(); }
  uint32_t free_page_count() const { return cache_->free_page_count(); }

 private:
  // All but the last of its tokens are in the cache.
  struct Sequence : TargetSequence {
    Sequence(KvCache& cache, const TargetInfo& info);

    KvSequence kv;  // after a pass its rows are there too, behind the committed ones
  };

  // What a pass has in the batch: its root's row, and its nodes' after that.
  struct Admitted {
    size_t pass;  // which of the caller's
    Sequence* sequence;
    uint32_t root_row;
    uint32_t row_count;
  };

  CpuTarget(const ModelSpec& spec, std::unique_ptr<WeightStore> weights, uint64_t content_hash,
            TargetInfo info, ThreadPool& pool);

  absl::StatusOr<Sequence*> Admit(const Pass& pass);
  absl::Status Forward(std::span<const Pass> passes);
  void RunBatch(std::span<const Pass> passes, std::span<PassResult> results);
  void ChooseBand(std::span<const Pass> passes, std::span<const Admitted> band,
                  std::span<PassResult> results);

  const ModelSpec spec_;
  const std::unique_ptr<WeightStore> weights_;
  const uint64_t content_hash_;
  const TargetInfo info_;
  TargetRules rules_;
  ThreadPool& pool_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Batch> batch_;
  SequenceTable<Sequence> sequences_;
  PassObserver* observer_ = nullptr;

  // Working memory of Run(), by pass of the batch, by row and by worker.
  std::vector<Admitted> admitted_;
  std::vector<RunningPass> running_;  // the same, for the observer
  std::vector<uint32_t> logit_rows_;
  std::vector<ChooserScratch> scratch_;
  std::vector<std::vector<TokenId>> paths_;
};

}  // namespace outrider
