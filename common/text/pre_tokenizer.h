// Cuts text into the pieces that byte-level BPE never merges across: roughly words, numbers,
// punctuation and white space.
//
// The rules are three regular expressions that models are trained with. They are scanned by hand:
// std::regex has no Unicode classes, backtracking engines can take quadratic time on hostile white
// space, and the patterns are small. Each scanner gives exactly what Oniguruma gives for its
// pattern (it stands above the scanner in pre_tokenizer.cc), in linear time.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// The length in bytes of the piece that `text` begins with: at least one character, at most all of
// it. `text` is valid UTF-8, not empty, and begins where a piece begins.
size_t FirstPiece(TokenizerSpec::PreTokenizer pre_tokenizer, std::string_view text);

}  // namespace outrider
