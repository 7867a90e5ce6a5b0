// A tokenizer for tokens that mean nothing: 0 <unk>, 1 <s>, 2 </s>, and then words, " w3", " w4"
// ...
//
// Sessions want one, for stop strings and for the text they show.
#pragma once

#include <cstdint>
#include <memory>

#include "common/text/tokenizer.h"

namespace outrider {

inline constexpr TokenId kVocabularyEnd = 2;

// 4 tokens or more. Takes milliseconds for a large one: make it once.
std::unique_ptr<Tokenizer> MakeVocabulary(int32_t size);

}  // namespace outrider
