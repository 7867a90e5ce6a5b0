// The names GGUF gives to tokenizers and their parts, for its reader and its writer. Private to
// this room.
#pragma once

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
  std::string_view name;
  TokenizerSpec::PreTokenizer pre_tokenizer;
  bool nfc;  // models of that name compose text; llama.cpp does not, and differs from them
  bool ignore_merges;  // implied by the name, and with it bos in front
};

// Null for a name whose rules we do not have.
const PreName* FindPreName(std::string_view name);

// The name to write for a spec: the one that says the same, else the nearest.
std::string_view PreNameFor(const TokenizerSpec& spec);

}  // namespace outrider
