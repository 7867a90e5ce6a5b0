// Text to token ids and back, token for token as the model's own tokenizer does it.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
//                             Tokenizer::Create(std::move(spec)));
//   const std::vector<TokenId> ids = tokenizer->Encode("Once upon a time");
//   const std::string text = tokenizer->Decode(ids);
//
// The order is Hugging Face's: added tokens are cut out of the raw text, the rest is normalised,
// split by the pre-tokeniser and handed piece by piece to the model (byte-level BPE, SentencePiece
// BPE or unigram). Text that is no UTF-8 counts as U+FFFD wherever it breaks (each longest broken
// prefix once), as Python and Rust read it.
//
// Cost: O(n log n) in the length of the longest piece. Threads: immutable after Create() as far as
// anyone can see; Encode() may run in several.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct EncodeOptions {
  bool add_special = true;  // bos and eos, where the model asks for them
  // "<|im_end|>" in the text is that token; false: it is just characters (untrusted text), and no
  // text at all becomes a control token.
  bool parse_special = true;
};

class Tokenizer {
 public:
  // What Create() refuses to read more of.
  static constexpr size_t kMaxTokens = 1 << 24;
  static constexpr size_t kMaxTokenBytes = 1024;
  static constexpr size_t kMaxVocabularyBytes = 32 << 20;

  // InvalidArgument when the spec contradicts itself (the readers in formats/ check files; this
  // checks what they built) or breaks one of the bounds above.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The text of the ids as Hugging Face decodes them (without clean_up_tokenization_spaces): always
  // valid UTF-8, broken bytes as the Detokenizer reads them. Control tokens print nothing when
  // `skip_special`; ids outside the vocabulary never do. For text that grows token by token use a
  // Detokenizer.
  std::string Decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // The bytes one token adds in the middle of a text, special tokens included; empty for ids
  // outside the vocabulary.
  std::string_view TokenBytes(TokenId id) const;

  bool IsSpecial(TokenId id) const;  // what skip_special skips
  bool IsEndOfGeneration(
      TokenId id) const;  // eos, eot, eom and the well-known texts that mean the same
  int32_t vocabulary_size() const;
  const TokenizerSpec& spec() const;

  // What device and server compare at Open: equal exactly when every real token has the same bytes
  // and kind under the same id. Padding does not count, nor does the way a file spells its rules.
  // FINGERPRINT in fingerprint.h says what is hashed.
  uint64_t fingerprint() const;

 private:
  class Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace outrider
