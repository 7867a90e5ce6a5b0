// Learns a byte-level BPE vocabulary from text: what GPT-2's tokenizer is, for other words.
//
// Text is cut into pieces as Encode() will cut it (ForEachPiece of common/text), each distinct piece
// counts as often as it occurs, and the pair of neighbouring tokens that occurs most often becomes
// a token, again and again. Of equally frequent pairs the one of lower ids is taken, so that the
// same text gives the same tokenizer everywhere; Hugging Face's trainer decides alike.
//
//   BpeTrainer trainer;
//   for (std::string_view document : Documents(text)) trainer.Add(document);
//   OUTRIDER_ASSIGN_OR_RETURN(TokenizerSpec spec, trainer.Train(4096));
//
// Cost: only pieces that hold the merged pair are looked at again; 21 MB of books take seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/base/name_index.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class BpeTrainer {
 public:
  static constexpr TokenizerSpec::PreTokenizer kPreTokenizer = TokenizerSpec::PreTokenizer::kGpt2;
  // <|endoftext|> and the bytes.
  static constexpr size_t kSmallestVocabulary = 257;
  static constexpr size_t kLargestVocabulary = 1 << 18;

  // `document` is valid UTF-8.
  void Add(std::string_view document);

  // Token 0 is <|endoftext|>, which begins every text (bos) and ends it (eos); then come the bytes,
  // in the order of their printable alphabet, and the merges. InvalidArgument for a size out of
  // bounds, and for text with too few pairs that occur twice.
  absl::StatusOr<TokenizerSpec> Train(size_t vocabulary_size) const;

 private:
  // Lets Add() ask with a view.
  struct PieceHash : NameHash {
    using is_transparent = void;
  };
  absl::flat_hash_map<std::string, uint64_t, PieceHash, std::equal_to<>> counts_;  // of pieces
};

}  // namespace outrider
