// Draft and target on one processor, where the target mostly waits for flash: the draft computes in
// those waits, and stops within one of its layers when what the target waited for has landed.
//
//   FlashTurns turns;
//   weights->LendWaits([&](const std::atomic<bool>& landed) { turns.Lend(landed); });
//   TurnTakingTarget target(engine_target, turns);
//   TurnTakingWeights of_the_draft(resident, turns);      // the draft's engine is over these
//
//   target   |compute|..wait..|compute|..wait..|compute|          between runs
//   draft            |layer   layer---|        |layer---|         |layer layer layer ...
//
// Beside a pass that computes, drafting slows the pass by more than it gains; beside one that waits it
// costs nothing.
//
// Threads: Begin(), End() and Lend() on the target's, Await() on the draft's.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/engine/other_target.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

class FlashTurns {
 public:
  // Around a run of the target.
  void Begin() { Set(true); }
  void End() { Set(false); }
  // The target waits until `landed`.
  void Lend(const std::atomic<bool>& landed);

  // Until the target does not compute.
  void Await();

 private:
  void Set(bool computes);

  Mutex mu_;
  CondVar ended_;
  bool computes_ ABSL_GUARDED_BY(mu_) = false;
};

class TurnTakingTarget final : public OtherTarget {
 public:
  // Both outlive it.
  TurnTakingTarget(Target& target, FlashTurns& turns) : OtherTarget(target), turns_(turns) {}

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    turns_.Begin();
    OtherTarget::Run(readings, passes, results);
    turns_.End();
  }

 private:
  FlashTurns& turns_;
};

// Weights that are lent when it is their user's turn.
class TurnTakingWeights final : public WeightStore {
 public:
  // `turns` outlives it.
  TurnTakingWeights(std::unique_ptr<WeightStore> weights, FlashTurns& turns)
      : weights_(std::move(weights)), turns_(turns) {}

  std::span<const float> rope_freqs() const override { return weights_->rope_freqs(); }
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override {
    return weights_->LookUp(table, rows);
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    turns_.Await();
    return weights_->Acquire(key);
  }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    turns_.Await();
    return weights_->Acquire(key);
  }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    return weights_->Acquire(key);
  }
  uint32_t expert_leases_max() const override { return weights_->expert_leases_max(); }
  void BeginRun(bool wants_head) override { weights_->BeginRun(wants_head); }
  void Prefetch(std::span<const WeightKey> keys) override { weights_->Prefetch(keys); }
  void LendWaits(IdleWork work) override { weights_->LendWaits(std::move(work)); }

 private:
  // A lease is given back to whom it is of.
  void Release(const WeightKey&) override {}

  const std::unique_ptr<WeightStore> weights_;
  FlashTurns& turns_;
};

}  // namespace outrider
