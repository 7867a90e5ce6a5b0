// The tokenizer of whatever the user named.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"

namespace outrider {

// `path`: a model (.gguf file or Hugging Face directory), or a tokenizer's own file:
// tokenizer.json, tokenizer.model.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path);

}  // namespace outrider
