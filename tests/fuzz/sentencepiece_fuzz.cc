// A SentencePiece model: any bytes are read within themselves, and what is accepted holds together.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/formats/tokenizers/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto spec = outrider::TokenizerFromSentencePiece(
      {reinterpret_cast<const char*>(data), size}, "tokenizer.model");
  if (!spec.ok()) return 0;
  OUTRIDER_CHECK(!spec->tokens.empty(), "a vocabulary has tokens");
  for (const auto& token : spec->tokens) {
    OUTRIDER_CHECK(std::isfinite(token.score) && !token.text.empty(), "tokens have text and score");
  }
  for (const auto& id : {spec->bos, spec->eos, spec->unknown, spec->padding}) {
    OUTRIDER_CHECK(!id || (*id >= 0 && static_cast<size_t>(*id) < spec->tokens.size()),
                   "special ids are tokens");
  }
  return 0;
}
