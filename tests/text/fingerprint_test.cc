#include "common/text/fingerprint.h"

#include <memory>
#include <utility>

#include "common/text/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/text/families.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

uint64_t FingerprintOf(TokenizerSpec spec) {
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return (*tokenizer)->fingerprint();
}

// The number crosses the network between versions of this program: it must never change.
TEST(Fingerprint, IsTheNumberItsDefinitionSays) {
  TokenizerSpec spec;
  EXPECT_EQ(TokenizerFingerprint(spec), 0xcbf29ce484222325u);
  spec.model = TokenizerSpec::Model::kSentencePieceBpe;
  spec.tokens = {{.text = "<unk>", .score = 0, .kind = TokenKind::kUnknown},
                 {.text = "[PAD]", .score = 0, .kind = TokenKind::kUnused},
                 {.text = "<0x0A>", .score = 0, .kind = TokenKind::kByte},
                 {.text = "\u2581ab", .score = -1, .kind = TokenKind::kNormal}};
  // 00000000 c 05000000 "<unk>"   02000000 t 01000000 "\n"   03000000 t 03000000 " ab"
  EXPECT_EQ(TokenizerFingerprint(spec), 0x7b7051ca7bd630bdu);
}

TEST(Fingerprint, PaddingDoesNotCount) {
  const TokenizerSpec spec = SmallByteLevel();
  TokenizerSpec padded = spec;
  for (int i = 0; i < 100; ++i)
    AddToken(padded, "[PAD" + std::to_string(i) + "]", TokenKind::kUnused);
  EXPECT_EQ(FingerprintOf(spec), FingerprintOf(padded));
}

TEST(Fingerprint, TheWayAFileSpellsItsRulesDoesNotCount) {
  const TokenizerSpec spec = SmallSentencePiece();
  TokenizerSpec other = spec;
  for (auto& token : other.tokens) token.score *= 2;
  AddMerge(other, "a", "b");
  other.space_prefix = TokenizerSpec::SpacePrefix::kFirst;
  other.add_bos = true;
  other.chat_templates["default"] = "{{ messages }}";
  EXPECT_EQ(FingerprintOf(spec), FingerprintOf(other));
  // A token found in raw text prints the same whether a file calls it normal or user-defined.
  other.tokens[static_cast<size_t>(IdOf(other, "abc"))].kind = TokenKind::kUserDefined;
  EXPECT_EQ(FingerprintOf(spec), FingerprintOf(other));
}

TEST(Fingerprint, EveryRealDifferenceCounts) {
  const TokenizerSpec spec = SmallSentencePiece();
  const uint64_t fingerprint = FingerprintOf(spec);
  const auto abc = static_cast<size_t>(IdOf(spec, "abc"));

  TokenizerSpec changed = spec;
  changed.tokens[abc].text = "abd";
  EXPECT_NE(FingerprintOf(changed), fingerprint);

  changed = spec;
  std::swap(changed.tokens[abc].text, changed.tokens[abc - 1].text);
  EXPECT_NE(FingerprintOf(changed), fingerprint);

  changed = spec;
  changed.tokens[abc].kind = TokenKind::kControl;
  EXPECT_NE(FingerprintOf(changed), fingerprint);

  changed = spec;
  changed.tokens[abc].kind = TokenKind::kUnused;
  EXPECT_NE(FingerprintOf(changed), fingerprint);

  changed = spec;
  AddToken(changed, "d");
  EXPECT_NE(FingerprintOf(changed), fingerprint);

  changed = spec;  // bytes that move from one token to the next
  changed.tokens[abc].text = "ab";
  changed.tokens[abc + 1].text = "c" + changed.tokens[abc + 1].text;
  EXPECT_NE(FingerprintOf(changed), fingerprint);
}

// The same model, published in two formats.
void ExpectOneFingerprint(const Family& a, const Family& b) {
  const auto first = Load(a);
  const auto second = Load(b);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->fingerprint(), (*second)->fingerprint());
}

TEST(Fingerprint, AGgufMatchesTheFilesItWasMadeFrom) {
  OUTRIDER_SKIP_WITHOUT(Gpt2Gguf().path);
  ExpectOneFingerprint(Gpt2Gguf(), Gpt2());
  OUTRIDER_SKIP_WITHOUT(Llama2Gguf().path);
  OUTRIDER_SKIP_WITHOUT(Llama2().path);
  ExpectOneFingerprint(Llama2Gguf(), Llama2());
}

TEST(Fingerprint, ATokenizerJsonMatchesTheModelItWasMadeFrom) {
  const Family model = {
      "t5_model", TestFile("tokenizers/sentencepiece/test_model.model"),
      [](const std::string& path) { return TokenizerFromSentencePiece(ReadFile(path), path); }};
  ExpectOneFingerprint(T5(), model);
}

// Qwen 2.5 pads its vocabulary to 151,936 tokens up to 3B and to 152,064 above.
TEST(Fingerprint, TheSizesOfQwenMatch) {
  OUTRIDER_SKIP_WITHOUT(Qwen2().path);
  const absl::StatusOr<TokenizerSpec> spec = Qwen2().read(Qwen2().path);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const uint64_t fingerprint = FingerprintOf(*spec);
  for (const size_t size : {151936, 152064}) {
    TokenizerSpec padded = *spec;
    while (padded.tokens.size() < size) {
      AddToken(padded, "[PAD" + std::to_string(padded.tokens.size()) + "]", TokenKind::kUnused);
    }
    EXPECT_EQ(FingerprintOf(padded), fingerprint);
  }
}

}  // namespace
}  // namespace outrider
