// What happens to text before the model's own rules: NFC, SentencePiece's character map, and how
// spaces are spelled.
//
// SentencePiece models see a space as U+2581 ("▁") and may want one in front. Hugging Face does
// that in either of two places, which differ in what added tokens with `normalized` match and in
// whether text that starts with a space gets a second one: in the normaliser (Prepend and Replace;
// SentencePiece itself and llama.cpp give the same ids), or after it, in the pre-tokeniser
// (Metaspace). The spec's space_prefix_once and split_on_whitespace mean the latter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/text/charsmap.h"

namespace outrider {

class Normalizer {
 public:
  static absl::StatusOr<Normalizer> Create(const TokenizerSpec& spec);

  // The normalised form of a stretch of valid UTF-8 between two added tokens: the text itself, or
  // one in `storage`. `at_start`: nothing stands before it.
  std::string_view Normalize(std::string_view text, bool at_start, std::string& storage) const;

  // Hands the normalised text to visit(string_view) as the model's rules read it: SentencePiece's
  // spaces spelled, one call for each text of its own (several with split_on_whitespace, otherwise
  // one; none for no text).
  template <typename Visit>
  void ForEachText(std::string_view normalized, bool at_start, Visit visit) const;

 private:
  Normalizer() = default;
  bool HasPrefix(bool at_start) const {
    return space_prefix_ == TokenizerSpec::SpacePrefix::kAlways ||
           (space_prefix_ == TokenizerSpec::SpacePrefix::kFirst && at_start);
  }
  // With U+2581 for every space, and one more in front where the rules want it.
  std::string SpellSpaces(std::string_view text, bool at_start) const;

  bool nfc_ = false;
  std::optional<Charsmap> charsmap_;
  bool remove_extra_whitespace_ = false;
  bool split_on_whitespace_ = false;
  TokenizerSpec::SpacePrefix space_prefix_ = TokenizerSpec::SpacePrefix::kNever;
  bool prefix_once_ = false;
  bool spell_early_ = false;  // SentencePiece's spaces, as part of Normalize()
  bool spell_late_ = false;   // or of ForEachText(); byte-level BPE has neither
};

// The next word of `text` at or after `at`: its beginning and end, or twice the end of the text.
std::pair<size_t, size_t> NextWord(std::string_view text, size_t at);

template <typename Visit>
void Normalizer::ForEachText(std::string_view normalized, bool at_start, Visit visit) const {
  if (normalized.empty()) return;
  if (!spell_late_) {
    visit(normalized);
  } else if (!split_on_whitespace_) {
    visit(std::string_view(SpellSpaces(normalized, at_start)));
  } else {
    for (size_t at = 0;;) {
      const auto [begin, end] = NextWord(normalized, at);
      if (begin == end) break;
      visit(std::string_view(
          SpellSpaces(normalized.substr(begin, end - begin), at_start && begin == 0)));
      at = end;
    }
  }
}

}  // namespace outrider
