// The normalisation table inside a SentencePiece model ("precompiled_charsmap"): NFKC and its
// variants.
//
//   u32 size | trie: size bytes of u32 units, little endian | replacements, each ended by a NUL
//
// The trie is a Darts-clone double array over UTF-8 bytes; the value at a key is the offset of its
// replacement. It is applied as Hugging Face applies it, which is not quite as SentencePiece does:
// a grapheme of fewer than six bytes is looked up whole and becomes the replacement of the
// *shortest* key it begins with; where there is none, and for longer graphemes, each character is
// looked up by itself.
//
// The table comes from a stranger: every step of the walk is checked against its size, and
// replacements longer than kMaxReplacementBytes are refused at Parse(), so text grows by a bounded
// factor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

class Charsmap {
 public:
  static constexpr size_t kMaxReplacementBytes = 256;  // the longest in use, of U+FDFA, is 33

  static absl::StatusOr<Charsmap> Parse(std::string_view bytes);

  // `text` is valid UTF-8, and so is the result, which lives in `storage`.
  std::string_view Normalize(std::string_view text, std::string& storage) const;

 private:
  Charsmap() = default;
  std::optional<std::string_view> Replacement(std::string_view text) const;
  void AppendReplaced(std::string_view grapheme, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace outrider
