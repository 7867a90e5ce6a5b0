// A model's content as one number, whoever reads it and in whatever order: the *content hash*.
//
//   ContentHasher hasher(model.hyperparameters(), model.tensors());
//   for (const ModelTensor& tensor : model.tensors()) ... hasher.Add(tensor, rows) ...
//   hasher.value()
//
// It goes over parts in one order: first the vectors (norms, biases, rope's divisors), then the
// matrices, both as TensorLayout() lists their tensors. A matrix is one part, but for those that
// engines take apart: a fused attn_qkv is three, an ffn_up that begins with its gate two, a tensor
// of stacked experts, or of their biases, one for each; one of norms of heads likewise. A part is
// hashed as
//
//   tensor's name, type, dims, first row (element); hashes of its rows, sixteen at a time
//
// vectors as the floats they are used as (a file may keep the same norm in fewer bits), whole. So a
// loader may hash sixteen rows here and sixteen there, and all engines agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/models/content_hash.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"

namespace outrider {

inline constexpr uint64_t kContentRows = 16;  // hashed together

struct ContentPart {
  const ModelTensor* tensor;
  uint64_t first;  // row of a matrix, element of a vector
  uint64_t count;

  bool is_vector() const { return tensor->dims.size() == 1; }
};

// In the order they are hashed in. The parts of a tensor follow one another and are all of it.
std::vector<ContentPart> ContentParts(const Hyperparameters& model,
                                      std::span<const ModelTensor> tensors);

class ContentHasher {
 public:
  // `tensors` outlive it.
  ContentHasher(const Hyperparameters& model, std::span<const ModelTensor> tensors);

  // Rows of a matrix in any pieces, from its first to its last; a vector in one piece. Unimplemented,
  // naming the tensor, for a vector of a type that cannot be decoded.
  absl::Status Add(const ModelTensor& tensor, std::span<const std::byte> rows);

  // A whole part at once, from whoever has hashed its rows, sixteen at a time, with HashBytes(, 0).
  void AddHashedRows(const ModelTensor& tensor, uint64_t first, std::span<const uint64_t> hashes);
  void AddVector(const ModelTensor& tensor, std::span<const float> values);

  // Everything has been added.
  uint64_t value() const;

 private:
  // Of one tensor, whose parts follow one another.
  struct Progress {
    size_t part;                     // the first that is not yet whole
    std::vector<std::byte> started;  // rows that are not yet sixteen
  };

  std::vector<ContentPart> parts_;
  std::vector<std::vector<uint64_t>> hashes_;            // by part
  absl::flat_hash_map<std::string, Progress> progress_;  // by name
};

// Reads all of it.
absl::StatusOr<uint64_t> HashContent(const ModelFile& model);

}  // namespace outrider
