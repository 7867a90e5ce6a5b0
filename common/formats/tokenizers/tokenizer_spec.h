// What a model's files say about its tokenizer, whatever their format. common/text turns one into a
// working Tokenizer; the GGUF writer turns one back into metadata. Pure data: no algorithm here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace outrider {

using TokenId = int32_t;

// Numbered as GGUF's tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // steers the model, prints nothing: <s>, <|im_end|>
  kUserDefined = 4,  // matched whole in raw text, printed as it stands
  kUnused = 5,       // padding up to a round vocabulary size
  kByte = 6,         // <0x41>: one byte of a character the vocabulary lacks
};

struct TokenizerSpec {
  enum class Model {
    kByteLevelBpe,      // GPT-2 and its descendants: merges over bytes
    kSentencePieceBpe,  // Llama 2: merges over characters, bytes as a fallback
    kUnigram,           // T5: the most probable segmentation
  };

  // How text is cut before the merges; common/text/pre_tokenizer.cc has the expressions. Each is
  // named as one of the names that GGUF's tokenizer.ggml.pre has for it (tokenizer_gguf_names.cc
  // has all of them).
  enum class PreTokenizer {
    kNone,     // SentencePiece models: one piece
    kDefault,  // what llama.cpp does where a file does not say
    kGpt2,
    kLlama3,  // "llama-bpe"
    kQwen2,
    kQwen35,
    kMinicpm5,
    kSmollm,
    kTekken,
    kGpt4o,
    kFalcon,
    kBloom,
    kViking,
    kDeepseekLlm,
    kDeepseekCoder,
    kDeepseekV3,
    kSpark,
    kYoutu,
    kKimiK2,
    kTinyAya,
    kSuperBpe,
    kAfmoe,
    kLaguna,
    kSeedCoder,
    kUfakzeka,
    kExaoneMoe,
    kJais2,
    kChameleon,
  };

  // Where SentencePiece models put the space that stands before a first word.
  enum class SpacePrefix { kNever, kFirst, kAlways };

  struct Token {
    // The bytes the token stands for in the model's own alphabet. Byte-level BPE: the raw bytes
    // (GGUF and tokenizer.json spell them in a printable alphabet; readers undo that).
    // SentencePiece: UTF-8 with U+2581 for a space, "<0x0A>" for a byte token.
    // Unique among kNormal tokens; an added token may repeat a normal one's text (GPT-NeoX's runs
    // of spaces), and what the model itself looks up is then the normal one.
    std::string text;
    float score = 0;  // SentencePiece log-probability or merge priority; 0 elsewhere
    TokenKind kind = TokenKind::kNormal;
  };

  // A token matched in raw text before anything else happens to it.
  struct AddedToken {
    TokenId id = 0;
    std::string text;
    bool special = false;      // skipped when decoding for a reader
    bool single_word = false;  // no letter, digit or underscore may touch it
    bool strip_left = false;   // takes the white space before it
    bool strip_right = false;  // takes the white space after it
    bool normalized = false;   // matched after normalisation rather than before
  };

  Model model = Model::kByteLevelBpe;
  PreTokenizer pre_tokenizer = PreTokenizer::kNone;
  std::vector<Token> tokens;  // by id

  // Byte-level BPE, and SentencePiece BPE from a tokenizer.json: by rank; parts and joined text are
  // tokens. Empty for SentencePiece BPE that merges by the score of the joined piece.
  std::vector<std::pair<TokenId, TokenId>> merges;
  std::vector<AddedToken> added_tokens;

  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;  // unknown characters become byte tokens
  bool fuse_unknown = false;   // a run of unknown characters is one unknown token
  bool nfc = false;            // text is composed (Unicode NFC) first

  // How SentencePiece models treat spaces, in this order, each on the text between added tokens:
  bool remove_extra_whitespace = false;  // runs of spaces become one, those at the end go
  bool split_on_whitespace = false;      // every word is a text of its own, white space is dropped
  SpacePrefix space_prefix = SpacePrefix::kNever;
  bool space_prefix_once = false;  // no prefix where the text starts with a space (or U+2581)
  bool cut_at_spaces = false;      // unigram: no token reaches across the front of a U+2581

  std::string precompiled_charsmap;  // SentencePiece's normalisation trie; empty: none

  std::optional<TokenId> bos, eos, eot, eom, unknown, padding;
  bool add_bos = false;  // Encode puts bos in front unless asked not to
  bool add_eos = false;

  absl::btree_map<std::string, std::string>
      chat_templates;  // "default" and whatever else the file names
};

}  // namespace outrider
