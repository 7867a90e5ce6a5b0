// Weights that are no finite numbers: where a model whose logits are broken is broken itself.
//
//   for (const ModelTensor& tensor : model->tensors()) {
//     OUTRIDER_ASSIGN_OR_RETURN(const auto unsound, FindUnsound(*model, tensor, path));
//     if (unsound) ... unsound->row, unsound->column, unsound->value
//   }
//
// Nobody looks for them when a model is loaded: they spoil only the tokens that meet them, and those
// that do are told (tokens/chooser.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/formats/models/model_file.h"

namespace outrider {

struct UnsoundWeight {
  uint64_t row;
  uint64_t column;
  float value;  // NaN, or an infinity
};

// So many bytes more have been read.
using WeightsRead = std::function<void(uint64_t bytes)>;

// The tensor's first one. Reads it once, up to there, and lets go of what it has read; takes at most
// 64 MiB, or a row. Errors are those of ModelFile::ReadRows and, behind `path`, of Dequantize.
absl::StatusOr<std::optional<UnsoundWeight>> FindUnsound(const ModelFile& model,
                                                         const ModelTensor& tensor,
                                                         const std::string& path,
                                                         const WeightsRead& on_read = nullptr);

}  // namespace outrider
