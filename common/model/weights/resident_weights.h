// All of a model's weights in memory, in the form the kernels like best.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
//                             ResidentWeights::Load(*model, spec, path, pool, progress));
//
// Matrices are repacked into panels (kernels/weight_matrix.h) while they are read; types without
// panels stay in GGUF rows, and so do embeddings that are not the head and position tables, which
// are only looked up. Norms and biases become F32. Tied embeddings are kept once.
//
// Memory: what the tensors take in the file, plus padding; taken in one piece. The file is read a few
//         rows at a time, which are packed before the next, so that loading never holds the model
//         twice: the peak stays within a few megabytes of the end.
// Threads: loading uses the whole pool. Afterwards immutable: any number of passes may use it.
// Errors:  Unimplemented for an element type that cannot be decoded, naming the tensor; DataLoss for
//          a file whose record of its content hash its bytes belie. Weights that are NaN or infinite are not looked for: the logits they spoil are refused when
//          somebody asks for a token.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

// Called on the loading thread, every few megabytes.
using LoadProgress =
    std::function<void(uint64_t bytes_done, uint64_t bytes_total, std::string_view tensor)>;

class ResidentWeights final : public WeightStore {
 public:
  // `path` starts every message.
  static absl::StatusOr<std::unique_ptr<ResidentWeights>> Load(const ModelFile& model,
                                                               const ModelSpec& spec,
                                                               const std::string& path,
                                                               ThreadPool& pool,
                                                               const LoadProgress& progress);

  // That Load() will take, and while it loads.
  static uint64_t MemoryBytes(const ModelFile& model, const ModelSpec& spec, uint32_t thread_count);

  const EntryWeights& entry() const { return entry_; }
  const HeadWeights& head() const { return head_; }

  std::span<const float> rope_freqs() const override { return entry_.rope_freqs; }
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override;
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    return Lease<HeadWeights>(*this, key, head_);
  }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    return Lease<LayerWeights>(*this, key, layers_[key.layer]);
  }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    return Lease<FeedForwardWeights>(*this, key, experts_[key.layer][key.expert]);
  }
  uint32_t expert_leases_max() const override { return std::numeric_limits<uint32_t>::max(); }
  void Prefetch(std::span<const WeightKey>) override {}
  void LendWaits(IdleWork) override {}  // there are none

  // What the file holds (formats/models/content_parts.h): taken while it was read.
  uint64_t content_hash() const { return content_hash_; }

 private:
  ResidentWeights() = default;
  void Release(const WeightKey&) override {}

  // Entry and head, then every layer and its experts.
  void Keep(const EntryWeights& entry) { entry_ = entry; }
  void Keep(const HeadWeights& head) { head_ = head; }
  void Keep(LayerWeights layer) {
    layers_.push_back(layer);
    experts_.emplace_back();
  }
  void Keep(FeedForwardWeights expert) { experts_.back().push_back(expert); }

  PageBuffer memory_;
  EntryWeights entry_;
  HeadWeights head_;
  std::vector<LayerWeights> layers_;
  std::vector<std::vector<FeedForwardWeights>> experts_;  // by layer
  uint64_t content_hash_ = 0;
};

}  // namespace outrider
