// The names GGUF gives to tokenizers and their parts, for its reader and its writer. Private to
// this room.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

inline constexpr std::string_view kChatTemplateKey = "tokenizer.chat_template";
inline constexpr std::string_view kChatTemplateNamesKey = "tokenizer.chat_templates";

// "tokenizer.ggml.bos_token_id" for "bos_token_id".
std::string TokenizerKey(std::string_view tail);

// What a value of tokenizer.ggml.pre stands for.
struct PreName {
  struct Implied {
    bool nfc =
        false;  // models of that name compose text; llama.cpp does not, and differs from them
    bool ignore_merges = false;
    bool add_bos = false;  // unless the file says otherwise
  };

  std::string_view name;
  TokenizerSpec::PreTokenizer pre_tokenizer;
  Implied implies = {};
};

// All that we know.
std::span<const PreName> PreNames();

// Null for a name whose rules we do not have.
const PreName* FindPreName(std::string_view name);

// Whether a "gpt2" tokenizer of that name merges characters, as SentencePiece's do, and not bytes.
bool MergesCharacters(std::string_view pre_name);

// The name to write for a spec: the one that says the same, else the nearest.
std::string_view PreNameFor(const TokenizerSpec& spec);

}  // namespace outrider
