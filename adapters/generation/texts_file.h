// What a target wrote, kept: it took longer to write than anything else about it takes.
//
// A GGUF file without tensors: what was asked for as a list of "what: value", the length of each
// text and the tokens of all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

absl::Status WriteTexts(const std::string& path, std::span<const std::string> asked,
                        std::span<const std::vector<TokenId>> texts);

// Nothing when there is no such file or something else was asked for; an error for one that is
// broken.
absl::StatusOr<std::optional<std::vector<std::vector<TokenId>>>> ReadTexts(
    const std::string& path, std::span<const std::string> asked);

}  // namespace outrider
