// Cuts text into the pieces that byte-level BPE never merges across: roughly words, numbers,
// punctuation and white space.
//
// The rules are regular expressions that models are trained with: mostly one, for some models
// several, each of which cuts the pieces of the one before further. They are scanned by hand:
// std::regex has no Unicode classes, backtracking engines can take quadratic time on hostile white
// space, and the expressions are small. Each scanner gives exactly what Oniguruma gives for its
// expression (it stands above the scanner), in linear time.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// Calls visit(piece) for the pieces of `text`, which is valid UTF-8, from left to right. Together
// they are all of it, and none is empty.
void ForEachPiece(TokenizerSpec::PreTokenizer pre_tokenizer, std::string_view text,
                  absl::FunctionRef<void(std::string_view)> visit);

}  // namespace outrider
