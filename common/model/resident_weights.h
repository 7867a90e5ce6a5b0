// All of a model's weights in memory, in the form the kernels like best.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
//                             ResidentWeights::Load(*model, spec, path, pool, progress));
//
// Matrices are repacked into panels (kernels/weight_matrix.h) while they are read; types without
// panels stay in GGUF rows, and so do embeddings that are not the head and position tables, which
// are only looked up. Norms and biases become F32. Tied embeddings are kept once.
//
// Memory: what the tensors take in the file, plus padding; taken in one piece. The file's own pages
//         are let go as they have been packed (ModelFile::Forget), so that loading never holds the
//         model twice: the peak stays within a few megabytes of the end.
// Threads: loading uses the whole pool. Afterwards immutable: any number of passes may use it.
// Errors:  Unimplemented for an element type that cannot be decoded, naming the tensor. Weights
//          that are NaN or infinite are not looked for: the logits they spoil are refused when
//          somebody asks for a token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weight_store.h"

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

  const OuterWeights& outer() const override { return outer_; }
  absl::StatusOr<LayerLease> Acquire(uint32_t layer) override {
    return LayerLease(*this, layer, layers_[layer]);
  }

  // Of every matrix's name, type, dimensions and bytes, and every vector's name and floats: taken
  // while they were read.
  uint64_t content_hash() const { return content_hash_; }

 private:
  ResidentWeights() = default;
  void Release(uint32_t) override {}

  PageBuffer memory_;
  OuterWeights outer_;
  std::vector<LayerWeights> layers_;
  uint64_t content_hash_ = 0;
};

}  // namespace outrider
