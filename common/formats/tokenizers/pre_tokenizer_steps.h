// Which pre-tokenizer a tokenizer.json describes by its steps. Private to this room.
//
// Hugging Face composes steps freely; models use the compositions listed in the .cc. Each is
// recognised exactly: a step is the expression of its Split, or one of the names below.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

inline constexpr std::string_view kByteLevelWords = "ByteLevel with its own expression";
inline constexpr std::string_view kSingleDigits = "Digits, one by one";
inline constexpr std::string_view kDigitRuns = "Digits";
inline constexpr std::string_view kPunctuationRuns = "Punctuation";
inline constexpr std::string_view kNewlinesInFront = R"(merged with next: (?:\r?\n)+(?!\r?\n))";

std::optional<TokenizerSpec::PreTokenizer> FindPreTokenizer(std::span<const std::string> steps);

}  // namespace outrider
