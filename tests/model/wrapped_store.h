// A weight store around another, for tests that change one thing about it.
#pragma once

#include <span>
#include <utility>

#include "common/model/weights/weight_store.h"

namespace outrider {

class WrappedStore : public WeightStore {
 public:
  explicit WrappedStore(WeightStore& store) : store_(store) {}

  std::span<const float> rope_freqs() const override { return store_.rope_freqs(); }
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override {
    return store_.LookUp(table, rows);
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override { return store_.Acquire(key); }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override { return store_.Acquire(key); }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    return store_.Acquire(key);
  }
  uint32_t expert_leases_max() const override { return store_.expert_leases_max(); }
  void BeginRun(bool wants_head) override { store_.BeginRun(wants_head); }
  void Prefetch(std::span<const WeightKey> keys) override { store_.Prefetch(keys); }
  void LendWaits(IdleWork work) override { store_.LendWaits(std::move(work)); }

 protected:
  void Release(const WeightKey&) override {}

  WeightStore& store_;
};

}  // namespace outrider
