// Text that grows token by token, never by half a character.
//
//   Detokenizer detokenizer(tokenizer);
//   for (TokenId id : ids) std::cout << detokenizer.Add(id);
//   std::cout << detokenizer.Finish();
//
// A token may end in the middle of a UTF-8 sequence (byte fallback, byte-level BPE). Its bytes are
// held back until the sequence is whole, or until the next byte shows that it never will be: then
// they come out as U+FFFD, once for each longest broken prefix. At most three bytes are ever held.
// The pieces joined equal Tokenizer::Decode of all the ids.
//
// For byte-level models that is what Hugging Face prints. For SentencePiece models Hugging Face
// looks at a whole run of byte tokens at once: if any byte of the run is wrong, every byte of it,
// the good ones too, becomes a U+FFFD. That cannot be streamed (a byte to come would take back text
// already shown), so broken runs, and only those, differ.
#pragma once

#include <span>
#include <string>

#include "common/text/tokenizer.h"

namespace outrider {

class Detokenizer {
 public:
  // `tokenizer` must outlive it. With `skip_special` special tokens print nothing.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true);

  // The text that this token completes; often a whole word, sometimes nothing.
  std::string Add(TokenId id);

  // As if all of these had been added. Looks at the last few alone, and past what prints nothing:
  // what is held back is at the end, and begins with a byte that no character goes on with.
  void Skip(std::span<const TokenId> ids);

  // What is still held back, as a replacement character. The next Add() starts a new text.
  std::string Finish();

 private:
  bool Prints(TokenId id) const { return !skip_special_ || !tokenizer_->IsSpecial(id); }

  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool drops_first_space_;  // the one SentencePiece models put before the first word
  bool at_start_ = true;
  std::string held_;  // an unfinished UTF-8 sequence
};

}  // namespace outrider
