// Readers of every file a tokenizer comes in, and writers of GGUF metadata and tokenizer.json.
//
// All of them check what they read: ids inside the vocabulary, unique token texts where the
// algorithm needs them, merges whose parts and result are tokens, scores that are numbers. Errors
// are one sentence that starts with `name` (the path).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class GgufWriter;

// tokenizer.ggml.* of a GGUF file. NotFound when it carries none.
absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufFile& file, const std::string& name);

// Whether the file leaves unsaid how its tokenizer cuts text, and neither does its architecture
// tell. It is read all the same, as llama.cpp cuts by default.
bool GuessesHowTextIsCut(const GgufFile& file);

// Hugging Face's tokenizer.json: BPE (byte-level, or SentencePiece-like with byte_fallback) and
// Unigram. A normaliser, pre-tokeniser or post-processor we do not run is an error that names it: a
// token wrong is worse than a refusal.
absl::StatusOr<TokenizerSpec> TokenizerFromJson(std::string_view json, const std::string& name);

// A SentencePiece model (protobuf), BPE or unigram.
absl::StatusOr<TokenizerSpec> TokenizerFromSentencePiece(std::string_view bytes,
                                                         const std::string& name);

// GPT-2's pair of files. They do not say which pre-tokeniser they were made with; the caller knows
// from the model.
absl::StatusOr<TokenizerSpec> TokenizerFromVocabAndMerges(std::string_view vocab_json,
                                                          std::string_view merges_txt,
                                                          TokenizerSpec::PreTokenizer pre_tokenizer,
                                                          const std::string& name);

// tiktoken's text form, as Meta ships Llama 3: one "base64 rank" a line. The merges are found again
// from the ranks.
absl::StatusOr<TokenizerSpec> TokenizerFromTiktoken(std::string_view text,
                                                    TokenizerSpec::PreTokenizer pre_tokenizer,
                                                    const std::string& name);

// A file called tokenizer.model, whichever of the two it is: Meta gives its tiktoken file that
// name.
absl::StatusOr<TokenizerSpec> TokenizerFromModelFile(std::string_view bytes,
                                                     const std::string& name);

// tokenizer_config.json on top of a spec read before it: added tokens, special ids, add_bos, chat
// templates.
absl::Status ApplyTokenizerConfig(std::string_view json, const std::string& name,
                                  TokenizerSpec& spec);

// Whatever of the above lies in a Hugging Face directory: tokenizer.json first, else
// tokenizer.model, else vocab.json and merges.txt; then tokenizer_config.json,
// special_tokens_map.json, chat_template.jinja. NotFound when there is none.
absl::StatusOr<TokenizerSpec> TokenizerFromDirectory(const std::string& directory);

// How GGUF names a way to cut text ("llama-bpe"); several names may mean the same way.
std::string_view NameOf(TokenizerSpec::PreTokenizer pre_tokenizer);

// Adds the tokenizer.ggml.* keys llama.cpp expects.
void AddTokenizerMetadata(const TokenizerSpec& spec, GgufWriter& writer);

// The texts of a tokenizer.json and of the tokenizer_config.json that names its special tokens, for
// byte-level BPE with GPT-2's pre-tokeniser, which is what adapters/ trains. Unimplemented for
// anything else.
struct TokenizerJson {
  std::string tokenizer;
  std::string config;
};
absl::StatusOr<TokenizerJson> TokenizerToJson(const TokenizerSpec& spec);

}  // namespace outrider
