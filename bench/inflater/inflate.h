// Grows a model to a larger shape without changing what it says: a small model's text at a large
// model's price, for measuring where no large model can be had.
//
//   OUTRIDER_RETURN_IF_ERROR(Inflate(*model, path, "large.gguf", options, progress));
//
// New dimensions hold zeros, and nothing that is not zero is ever multiplied with them:
//
//   width         embeddings and everything written to the residual stream gain zeros; what reads
//                 it gains zero columns. A norm over D dimensions, of which d are not zero, sees
//                 d / D of the mean square: with epsilon' = epsilon * d / D and weights
//                 w' = w * sqrt(d / D) it gives what it gave.
//   feed-forward  zero rows of gate and up, zero columns of down
//   heads         of the same size. A query head attends to its own key head: where a key head
//                 served more queries than it is to serve, it is there several times. New query
//                 heads are zeros, what they attend to meets zero columns of the output projection.
//   layers        new ones write nothing to the residual stream. They stand before the old ones,
//                 evenly among them: layer l of L becomes the last of those that make up its share,
//                 so that the state at a given depth is the small model's there.
//
// Logits are the small model's but for rounding in norms, and to the bit where D is d times a power
// of four, as long as tensors keep their types and blocks stay whole. Quantising to another type
// rounds weights as it always does; zeros stay zeros in every type.
//
// Memory: a few megabytes, whatever the size: tensors are written in bands of rows.
// Errors: InvalidArgument, naming what is too small or does not fit; Unimplemented for models whose
//         function this cannot keep: layer norm (it subtracts a mean that zeros would move),
//         experts, encoders, and more width where heads have norms of their own (they share the
//         epsilon).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

// 0: as it is.
struct InflateOptions {
  uint32_t embedding_length = 0;
  uint32_t block_count = 0;
  uint32_t head_count = 0;
  uint32_t kv_head_count = 0;
  uint32_t feed_forward_length = 0;
  std::optional<TensorType> type = {};  // as ConvertOptions
};

// The shape of a well-known model, in this model's heads: "1b" (Llama 3.2 1B), "1.1b" (TinyLlama),
// "3b" (Llama 3.2 3B), "8b" (Llama 3 8B); with more key heads than that has where the model needs
// them. InvalidArgument when heads of its length do not fill the attention, or for another name.
absl::StatusOr<InflateOptions> ShapeLike(std::string_view name, const ModelFile& model,
                                         const std::string& path);

using InflateProgress = std::function<void(uint64_t bytes, std::string_view tensor)>;

// Of tensor data that Inflate() will write. The same errors.
absl::StatusOr<uint64_t> InflatedBytes(const ModelFile& model, const std::string& path,
                                       const InflateOptions& options);

// `path` is the model's, and starts messages.
absl::Status Inflate(const ModelFile& model, const std::string& path, const std::string& out_path,
                     const InflateOptions& options, const InflateProgress& progress);

// Exits of a model for what Inflate() makes of it with the same options, with the calibration they
// have: they see the states they saw, so they guess what they guessed. `content_hash` is that of
// the new weights. InvalidArgument for exits of another shape; `exits_path` starts messages.
absl::StatusOr<TrainedExits> InflateExits(const TrainedExits& exits, const std::string& exits_path,
                                          const ModelFile& model, const std::string& path,
                                          const InflateOptions& options, uint64_t content_hash);

}  // namespace outrider
