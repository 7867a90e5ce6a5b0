#include "bench/simulator/sources/vocabulary.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

std::unique_ptr<Tokenizer> MakeVocabulary(int32_t size) {
  OUTRIDER_CHECK(size > kVocabularyEnd + 1, "a vocabulary has words besides its special tokens");
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kUnigram;
  spec.tokens = {{"<unk>", 0, TokenKind::kUnknown},
                 {"<s>", 0, TokenKind::kControl},
                 {"</s>", 0, TokenKind::kControl}};
  for (int32_t id = kVocabularyEnd + 1; id < size; ++id) {
    spec.tokens.push_back({Concat("\u2581w", id), -1, TokenKind::kNormal});
  }
  spec.unknown = 0;
  spec.bos = 1;
  spec.eos = kVocabularyEnd;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
  OUTRIDER_CHECK_OK(tokenizer.status());
  return *std::move(tokenizer);
}

}  // namespace outrider
