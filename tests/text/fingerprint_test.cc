#include "common/text/fingerprint.h"

#include <memory>
#include <utility>

#include "common/text/tokenizer.h"
#include "gtest/gtest.h"
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
  Fingerprint fingerprint;
  EXPECT_EQ(fingerprint.value(), 0xcbf29ce484222325u);
  fingerprint.Add(7, TokenKind::kNormal, "ab");  // FNV-1a of 07 00 00 00 74 02 00 00 00 61 62
  EXPECT_EQ(fingerprint.value(), 0x3ce61811edeff583u);
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

}  // namespace
}  // namespace outrider
