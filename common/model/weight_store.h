// Where the forward pass gets its weights: a lease on one layer at a time, in order, so that a
// store need not hold them all.
//
//   for (uint32_t layer = 0; layer < layer_count; ++layer) {
//     OUTRIDER_ASSIGN_OR_RETURN(const LayerLease lease, store.Acquire(layer));
//     ... lease->query ...
//   }                                        // given back here
//
// Resident weights (resident_weights.h) are always there. A streaming store waits for the layer in
// Acquire() and reads the next ones meanwhile. The outer weights are always in memory.
//
// Threads: one at a time; a lease is given back by the thread that took it.
// Errors:  Acquire() returns what went wrong with reading that layer.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "common/model/layer_weights.h"

namespace outrider {

class LayerLease;

class WeightStore {
 public:
  virtual ~WeightStore() = default;

  virtual const OuterWeights& outer() const = 0;
  virtual absl::StatusOr<LayerLease> Acquire(uint32_t layer) = 0;

 protected:
  friend class LayerLease;
  virtual void Release(uint32_t layer) = 0;
};

// Lets the weights be used for as long as it lives.
class LayerLease {
 public:
  LayerLease(WeightStore& store, uint32_t layer, const LayerWeights& weights)
      : store_(&store), layer_(layer), weights_(&weights) {}
  LayerLease(LayerLease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        layer_(other.layer_),
        weights_(other.weights_) {}
  LayerLease& operator=(LayerLease&&) = delete;
  ~LayerLease() {
    if (store_ != nullptr) store_->Release(layer_);
  }

  const LayerWeights& operator*() const { return *weights_; }
  const LayerWeights* operator->() const { return weights_; }

 private:
  WeightStore* store_;  // null: moved from
  uint32_t layer_;
  const LayerWeights* weights_;
};

}  // namespace outrider
