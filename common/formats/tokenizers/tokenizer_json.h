// The parts of reading a tokenizer.json that its two files and tokenizer_config.json share. Private
// to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/formats/tokenizers/vocabulary.h"
#include "nlohmann/json.hpp"

namespace outrider {

// What the post-processor puts around a text, not yet held against the vocabulary.
struct Ends {
  std::optional<int64_t> bos, eos;
};

// Whether the pre-tokeniser turns text into the byte alphabet.
bool IsByteLevel(const nlohmann::json& json);

// Reads normalizer, pre_tokenizer, post_processor and decoder into `spec`, whose model is set.
// Unimplemented, naming the step, unless the spec can say exactly what they do.
absl::StatusOr<Ends> ReadPipeline(const nlohmann::json& json, const std::string& name,
                                  TokenizerSpec& spec);

// Text and flags of an added token; the id is the caller's.
absl::StatusOr<TokenizerSpec::AddedToken> ParseAddedToken(const nlohmann::json& entry,
                                                          const std::string& where);

}  // namespace outrider
