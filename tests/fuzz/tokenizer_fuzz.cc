// Any text, and any ids, through a small tokenizer of each model, and any text through every
// pre-tokenizer.
//
// The first byte chooses how the text is encoded, the rest is the text, and once more the ids.
// Laws: no crash; ids are tokens; byte-level text returns whole; streamed text is the decoded text,
// each piece valid UTF-8; without parse_special no text becomes a control token.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/formats/tokenizers/tokenizer_gguf_names.h"
#include "common/text/charsmap.h"
#include "common/text/detokenizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/tokenizer.h"
#include "common/text/unicode/unicode.h"
#include "tests/text/charsmap_bytes.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

std::vector<TokenizerSpec> Specs() {
  using Spec = TokenizerSpec;
  std::vector<Spec> specs;
  for (const auto rules :
       {Spec::PreTokenizer::kGpt2, Spec::PreTokenizer::kLlama3, Spec::PreTokenizer::kQwen2}) {
    specs.push_back(SmallByteLevel());
    specs.back().pre_tokenizer = rules;
  }
  specs.push_back(SmallSentencePiece());
  specs.push_back(SmallSentencePiece());
  specs.back().space_prefix_once = true;
  specs.back().byte_fallback = false;
  specs.push_back(SmallUnigram());
  specs.back().precompiled_charsmap =
      CharsmapBytes({{"Ａ", "a"}, {"\u3000", " "}, {"e\u0301", "é"}, {"\r", ""}}).bytes();
  specs.push_back(SmallUnigram());
  specs.back().split_on_whitespace = true;
  // Added tokens with every flag.
  for (Spec& spec : specs) {
    for (int flags = 0; flags < 16; ++flags) {
      const std::string text = "ab " + std::string(1, static_cast<char>('A' + flags));
      spec.added_tokens.push_back({.id = AddToken(spec, text, TokenKind::kUserDefined),
                                   .text = text,
                                   .single_word = (flags & 1) != 0,
                                   .strip_left = (flags & 2) != 0,
                                   .strip_right = (flags & 4) != 0,
                                   .normalized = (flags & 8) != 0});
    }
  }
  return specs;
}

std::vector<std::unique_ptr<Tokenizer>> Tokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (TokenizerSpec& spec : Specs()) {
    auto tokenizer = Tokenizer::Create(std::move(spec));
    OUTRIDER_CHECK(tokenizer.ok(), "the small vocabularies are sound");
    tokenizers.push_back(*std::move(tokenizer));
  }
  TokenizerSpec composing = SmallByteLevel();
  composing.nfc = true;
  auto tokenizer = Tokenizer::Create(std::move(composing));
  OUTRIDER_CHECK(tokenizer.ok(), "the small vocabularies are sound");
  tokenizers.push_back(*std::move(tokenizer));
  return tokenizers;
}

void CheckPieces(std::string_view text) {
  std::string storage;
  text = ValidUtf8(text, storage);
  for (const PreName& name : PreNames()) {
    std::string joined;
    ForEachPiece(name.pre_tokenizer, text, [&](std::string_view piece) {
      OUTRIDER_CHECK(!piece.empty(), "no piece is empty");
      joined += piece;
    });
    OUTRIDER_CHECK(joined == text, "the pieces are the text");
  }
}

void CheckStreaming(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                    bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string joined, storage;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Add(id);
    OUTRIDER_CHECK(ValidUtf8(piece, storage).data() == piece.data(),
                   "no piece ends in half a character");
    joined += piece;
  }
  joined += detokenizer.Finish();
  OUTRIDER_CHECK(joined == tokenizer.Decode(ids, skip_special),
                 "the pieces join to the decoded text");
}

// Text in which an added token takes white space does not return whole.
bool ReturnsWhole(const TokenizerSpec& spec, std::string_view text) {
  return spec.model == TokenizerSpec::Model::kByteLevelBpe && !spec.nfc &&
         text.find("ab ") == std::string_view::npos;
}

void Check(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  const TokenizerSpec& spec = tokenizer.spec();
  const std::vector<TokenId> ids = tokenizer.Encode(text, {.parse_special = parse_special});
  for (const TokenId id : ids) {
    OUTRIDER_CHECK(id >= 0 && id < tokenizer.vocabulary_size(), "ids are tokens");
    const bool control = spec.tokens[static_cast<size_t>(id)].kind == TokenKind::kControl;
    OUTRIDER_CHECK(parse_special || !control, "untrusted text makes no control token");
  }
  if (ReturnsWhole(spec, text)) {
    std::string storage;
    OUTRIDER_CHECK(tokenizer.Decode(ids, /*skip_special=*/false) == ValidUtf8(text, storage),
                   "text returns whole");
  }
  CheckStreaming(tokenizer, ids, /*skip_special=*/true);
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  static const auto& tokenizers = *new std::vector<std::unique_ptr<Tokenizer>>(Tokenizers());
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool flag = (data[0] & 1) != 0;
  std::vector<TokenId> ids;
  for (size_t i = 1; i + 1 < size; i += 2) ids.push_back((data[i] | data[i + 1] << 8) - 4);
  CheckPieces(text);
  for (const auto& tokenizer : tokenizers) {
    Check(*tokenizer, text, flag);
    CheckStreaming(*tokenizer, ids, flag);
  }
  // The same bytes as a normalisation table.
  if (const auto map = Charsmap::Parse(text); map.ok()) {
    std::string storage, normalized;
    normalized = map->Normalize("Ａ plain ﬁne e\u0301 \r\n text", storage);
    OUTRIDER_CHECK(ValidUtf8(normalized, storage).data() == normalized.data(),
                   "normalised text is UTF-8");
  }
  return 0;
}
