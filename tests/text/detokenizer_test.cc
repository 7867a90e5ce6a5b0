#include "common/text/detokenizer.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"
#include "common/text/unicode/unicode.h"
#include "gtest/gtest.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  const auto tokenizer = Make(SmallByteLevel());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Add(0xE8), "");
  EXPECT_EQ(detokenizer.Add(0xAA), "");
  EXPECT_EQ(detokenizer.Add(0x9E), "語");
  EXPECT_EQ(detokenizer.Add('a'), "a");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, GivesUpOnACharacterAsSoonAsItCannotBe) {
  const auto tokenizer = Make(SmallByteLevel());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Add(0xE8), "");
  EXPECT_EQ(detokenizer.Add('a'),
            "\uFFFD"
            "a");
  EXPECT_EQ(detokenizer.Add(0x80), "\uFFFD");
  EXPECT_EQ(detokenizer.Add(0xF0), "");
  EXPECT_EQ(detokenizer.Add(0x9F), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");  // one broken prefix, one replacement
}

TEST(Detokenizer, TheFirstSpaceOfASentencePieceTextGoesAndNoOther) {
  const auto tokenizer = Make(SmallSentencePiece());
  const TokenizerSpec& spec = tokenizer->spec();
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Add(*spec.bos), "");
  EXPECT_EQ(detokenizer.Add(IdOf(spec, "▁a")), "a");
  EXPECT_EQ(detokenizer.Add(IdOf(spec, "▁a")), " a");
  EXPECT_EQ(detokenizer.Finish(), "");
  EXPECT_EQ(detokenizer.Add(IdOf(spec, "▁▁")), " ");  // a new text
  EXPECT_EQ(detokenizer.Add(IdOf(spec, "▁")), " ");
}

TEST(Detokenizer, ASpaceStaysWhereTheModelPutsNone) {
  TokenizerSpec spec = SmallSentencePiece();
  spec.space_prefix = TokenizerSpec::SpacePrefix::kNever;
  const auto tokenizer = Make(spec);
  EXPECT_EQ(Detokenizer(*tokenizer).Add(IdOf(spec, "▁a")), " a");
}

TEST(Detokenizer, PrintsSpecialTokensWhenAsked) {
  const auto tokenizer = Make(SmallSentencePiece());
  Detokenizer detokenizer(*tokenizer, /*skip_special=*/false);
  EXPECT_EQ(detokenizer.Add(*tokenizer->spec().bos), "<s>");
  EXPECT_EQ(detokenizer.Add(IdOf(tokenizer->spec(), "▁a")), " a");
}

// For any ids at all: each piece is valid UTF-8, and together they are what Decode() says, which in
// turn are the tokens' bytes with broken sequences replaced.
TEST(Detokenizer, PiecesJoinToTheDecodedText) {
  std::mt19937 random(11);
  for (const TokenizerSpec& spec : {SmallByteLevel(), SmallSentencePiece(), SmallUnigram()}) {
    const auto tokenizer = Make(spec);
    for (int round = 0; round < 3000; ++round) {
      std::vector<TokenId> ids(random() % 12);
      for (TokenId& id : ids) id = static_cast<TokenId>(random() % (spec.tokens.size() + 2)) - 1;
      const bool skip_special = random() % 2 == 0;
      Detokenizer detokenizer(*tokenizer, skip_special);
      std::string joined, bytes, storage;
      for (const TokenId id : ids) {
        const std::string piece = detokenizer.Add(id);
        ASSERT_EQ(ValidUtf8(piece, storage).data(), piece.data());
        joined += piece;
        if (!(skip_special && tokenizer->IsSpecial(id))) bytes += tokenizer->TokenBytes(id);
      }
      joined += detokenizer.Finish();
      ASSERT_EQ(joined, tokenizer->Decode(ids, skip_special));
      std::string_view expected = ValidUtf8(bytes, storage);
      if (spec.model != TokenizerSpec::Model::kByteLevelBpe && expected.starts_with(' '))
        expected.remove_prefix(1);
      ASSERT_EQ(joined, expected);
    }
  }
}

}  // namespace
}  // namespace outrider
