// Any model, written as one GGUF file.
//
// Works through the tensors in bands of rows, so memory stays at a few tens of megabytes whatever
// the model's size, and writes atomically: the output is complete under its name, or absent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

struct ConvertOptions {
  // F32, F16, BF16, Q8_0, Q4_0 or Q4_K; empty keeps every tensor as it is stored.
  std::optional<TensorType> type = {};
  // Tensors in execution order, each on a 4096-byte boundary, and those that are multiplied with in
  // panels: direct I/O reads a layer as one extent to where it is computed with.
  bool flash = false;
  uint32_t thread_count = 1;
};

inline constexpr uint64_t kFlashAlignment = 4096;

// Called after every band with the output bytes it made and the tensor it belongs to.
using ConvertProgress = std::function<void(uint64_t bytes, std::string_view tensor)>;

// Bytes of tensor data Convert() will write: what a progress bar counts up to.
uint64_t ConvertedBytes(const ModelFile& model, const ConvertOptions& options);

// InvalidArgument names the tensor: a type we cannot read, or a value the new type cannot hold.
// Cancelled once Interrupted().
absl::Status Convert(const ModelFile& model, const std::string& out_path,
                     const ConvertOptions& options, const ConvertProgress& progress);

}  // namespace outrider
