// A trained model as one GGUF file, which our core and llama.cpp open alike.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// `type`, F32 or F16, is that of the matrices; vectors stay F32. InvalidArgument, naming the
// tensor, for a value that F16 cannot hold.
absl::Status WriteModel(const std::string& path, const Hyperparameters& hyperparameters,
                        const TokenizerSpec& tokenizer, std::span<const NamedParameter> parameters,
                        TensorType type);

}  // namespace outrider
