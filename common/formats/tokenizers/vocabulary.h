// The vocabulary of a TokenizerSpec while a reader puts it together: every reader's checks in one
// place.
//
//   Vocabulary vocabulary("tokenizer.json", spec);          // spec.model is set already
//   OUTRIDER_RETURN_IF_ERROR(vocabulary.Place(0, "Ġthe"));  // as the file spells it
//   OUTRIDER_RETURN_IF_ERROR(vocabulary.AddMerge("t", "he"));
//   OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(1, {.text = "<s>", .special = true}));
//   OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
//
// Texts are given and looked up as files spell them; for byte-level models that is the byte
// alphabet, and what lands in the spec is the bytes. Ids may come in any order; those never placed
// become padding. Errors start with the name and end in one sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "common/base/name_index.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// Four times the largest vocabulary known; an id beyond it is a broken file, not a large model.
inline constexpr int64_t kMaxTokens = int64_t{1} << 20;

// Ids without a text are padding (rows of the embedding matrix rounded up, ids kept free); more of
// them than texts, and this many besides, is a broken file, which would cost memory for nothing.
inline constexpr size_t kMaxGapsBeyondTexts = 1024;

class Vocabulary {
  // Lets Find() ask with a view.
  struct TextHash : NameHash {
    using is_transparent = void;
  };
  using TextIndex = absl::flat_hash_map<std::string, TokenId, TextHash, std::equal_to<>>;

 public:
  // `spec` may hold tokens already (Finish()ed ones) and must outlive the Vocabulary.
  Vocabulary(std::string name, TokenizerSpec& spec);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // A token of the model itself. InvalidArgument when the id is taken or out of bounds, the text is
  // another token's, or the score is not a number. An empty text, which nothing could ever match,
  // makes padding.
  absl::Status Place(int64_t id, std::string_view text, TokenKind kind = TokenKind::kNormal,
                     float score = 0);

  // The next merge in rank. InvalidArgument unless both parts and the joined text are tokens.
  absl::Status AddMerge(std::string_view left, std::string_view right);

  // The same from "left right"; a part may itself start with a space.
  absl::Status AddMerge(std::string_view line);

  // A token matched in raw text: a new one, or one of the model's that the file declares so. Said
  // twice, the later flags hold. token.id is set here.
  absl::Status Add(int64_t id, TokenizerSpec::AddedToken token);

  // Adds the control, user-defined and unknown tokens among those placed, for files that have no
  // list of their own. Flags beyond `special` are off.
  absl::Status AddByKind();

  // Names the padding and checks that every byte-level token could be spelled back and that the
  // texts are not lost among padding. Call last.
  absl::Status Finish();

  std::optional<TokenId> Find(std::string_view text) const;

  bool IsAdded(TokenId id) const { return added_.contains(id); }

  // `id`, when it is a token: the `role` ("bos") is for the error.
  absl::Status SetSpecial(std::string_view role, int64_t id, std::optional<TokenId>& target) const;

  const std::string& name() const { return name_; }
  size_t token_count() const { return spec_.tokens.size(); }
  TokenizerSpec& spec() { return spec_; }

 private:
  bool ByteLevel() const { return spec_.model == TokenizerSpec::Model::kByteLevelBpe; }
  absl::Status MakeRoom(int64_t id);
  absl::Status FillGaps();

  const std::string name_;
  TokenizerSpec& spec_;
  TextIndex index_;                             // by the text as files spell it
  absl::flat_hash_map<TokenId, size_t> added_;  // positions in spec_.added_tokens
  absl::flat_hash_set<TokenId> unspellable_;    // normal tokens outside the byte alphabet
};

// How SentencePiece spells a space: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// "<0x41>": the spelling of a byte token in SentencePiece vocabularies.
bool IsByteToken(std::string_view text);

}  // namespace outrider
