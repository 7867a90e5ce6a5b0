// The mean of models that began as one and went on learning from different texts ("Model soups",
// Wortsman et al., 2022). Each has some of what it read last by heart; the mean keeps what they
// agree on. It often says more of unseen text than any of them, and a draft foresees it better.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/models/model_file.h"

namespace outrider {

struct NamedModel {
  std::string path;  // for errors
  const ModelFile* file;
};

// How many more bytes of the output are done, and in which tensor.
using MeanProgress = std::function<void(uint64_t bytes, std::string_view tensor)>;

// Writes a GGUF file every weight of which is the mean of that weight in `models`, two or more; one
// that is given twice counts twice. Tensors' types and all else are those of the first, but for its
// name, which is the file's.
//
// InvalidArgument, naming the file and what it is about, where models are not of one shape and
// vocabulary, or quantised: the steps of such weights are too coarse.
absl::Status WriteMean(std::span<const NamedModel> models, const std::string& out,
                       const MeanProgress& progress);

}  // namespace outrider
