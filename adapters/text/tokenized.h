// Text files as tokens, for whoever trains on them or cuts prompts out of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/text/tokenizer.h"

namespace outrider {

// All documents (text_file.h) of all files, each as its tokens; a file that is named twice twice.
// InvalidArgument for a file without text.
absl::StatusOr<std::vector<std::vector<TokenId>>> Tokenized(std::span<const std::string> paths,
                                                            const Tokenizer& tokenizer);

}  // namespace outrider
