// Where the forward pass gets its weights: a lease on what a key names, so that a store need not
// hold them all.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const Lease<LayerWeights> layer, store.Acquire(LayerKey{3}));
//   store.Prefetch(keys of the experts that were chosen);
//   store.Guess(keys of those that the next layer may choose);
//   for (const ExpertKey& key : keys) {                   // those at hand first
//     OUTRIDER_ASSIGN_OR_RETURN(const Lease<FeedForwardWeights> expert, store.Acquire(key));
//     ... expert->up ...
//   }                                        // given back here
//
// Keys are the head, a layer (all of it but its experts), and an expert of a layer. Tables are no
// keys: a pass wants a row for each token, of embeddings that may be a tenth of the model, and so it
// asks for rows, which a store may read from wherever they are.
//
// Resident weights (resident_weights.h) are always there. A streaming store reads ahead: layers and
// the head in their order, which it knows (but no head for a run that said it wants none, as a
// piece of a prompt does), and experts as Prefetch() and Guess() say. Where it must wait all the
// same, it lends the wait to idle work (drafting). Exits ask for rows of the head between any two
// layers, and so hold a lease on it for as long as they are attached.
//
// Threads: one at a time; a lease is given back by the thread that took it. A key may be leased more
//          than once at a time.
// Errors:  Acquire() and LookUp() return what went wrong with reading what they were asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

struct HeadKey {
  bool operator==(const HeadKey&) const = default;
};

struct LayerKey {
  uint32_t layer;

  bool operator==(const LayerKey&) const = default;
};

struct ExpertKey {
  uint32_t layer;
  uint32_t expert;

  bool operator==(const ExpertKey&) const = default;
};

using WeightKey = std::variant<HeadKey, LayerKey, ExpertKey>;

// What is looked up by the row.
enum class WeightTable { kEmbeddings, kPositions };

struct TableRow {
  uint32_t row;
  float* out;  // [embedding_length]
};

// Called by the thread that waits in Acquire(), at most once a wait. Returns soon after `landed`
// has become true, or before when it has nothing to do.
using IdleWork = std::function<void(const std::atomic<bool>& landed)>;

template <typename Weights>
class Lease;

class WeightStore {
 public:
  virtual ~WeightStore() = default;

  // A model's llama3 scaling factors, or none: always in memory.
  virtual std::span<const float> rope_freqs() const = 0;
  // Rows of a table the model has, as floats.
  virtual absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) = 0;
  virtual absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) = 0;
  virtual absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) = 0;
  virtual absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) = 0;
  // How many experts of a layer it lends at the same time, beside the layer: at least one.
  virtual uint32_t expert_leases_max() const = 0;

  // A run begins: it will ask for the layers in their order, and then for the head or not. A hint.
  virtual void BeginRun(bool /*wants_head*/) {}
  // These are wanted next, in this order: a hint.
  virtual void Prefetch(std::span<const WeightKey> keys) = 0;
  // Whether Acquire() would not wait.
  virtual bool IsAtHand(ExpertKey) { return true; }

  // A layer's router before its turn, for a guess at what it will choose. Null: a guess would be of no
  // use.
  virtual const Linear* RouterAhead(uint32_t) { return nullptr; }
  // The experts of a layer it may choose, the likeliest first. A hint that may be wrong.
  virtual void Guess(std::span<const WeightKey>) {}

  // From now on; empty: nothing.
  virtual void LendWaits(IdleWork work) = 0;

 protected:
  template <typename Weights>
  friend class Lease;
  virtual void Release(const WeightKey& key) = 0;
};

// Lets the weights be used for as long as it lives.
template <typename Weights>
class Lease {
 public:
  Lease(WeightStore& store, WeightKey key, const Weights& weights)
      : store_(&store), key_(key), weights_(&weights) {}
  Lease(Lease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), key_(other.key_), weights_(other.weights_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (store_ != nullptr) store_->Release(key_);
  }

  const Weights& operator*() const { return *weights_; }
  const Weights* operator->() const { return weights_; }

 private:
  WeightStore* store_;  // null: moved from
  WeightKey key_;
  const Weights* weights_;
};

}  // namespace outrider
