#include "common/text/detokenizer.h"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
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

// Whatever was skipped, what follows reads as if it had been added.
TEST(Detokenizer, SkippedTokensAreAsGoodAsAdded) {
  std::mt19937 random(7);
  for (const TokenizerSpec& spec : {SmallByteLevel(), SmallSentencePiece()}) {
    const auto tokenizer = Make(spec);
    for (int round = 0; round < 5000; ++round) {
      std::vector<TokenId> ids(random() % 12);
      for (TokenId& id : ids) {
        // Characters of many bytes begin and break anywhere, between tokens that print nothing.
        const uint32_t kind = random() % 4;
        id = static_cast<TokenId>(random() % (kind == 0 ? spec.tokens.size() : 256));
        if (kind == 1) id = static_cast<TokenId>(0x80 + random() % 0x80);
        if (kind == 2 && spec.eos) id = *spec.eos;
        id = std::min(id, static_cast<TokenId>(spec.tokens.size()) - 1);
      }
      const size_t begin = random() % (ids.size() + 1);
      Detokenizer added(*tokenizer);
      Detokenizer skipped(*tokenizer);
      const std::span<const TokenId> before = std::span(ids).first(begin);
      for (const TokenId id : before) added.Add(id);
      skipped.Skip(before);
      for (const TokenId id : std::span(ids).subspan(begin)) {
        ASSERT_EQ(skipped.Add(id), added.Add(id)) << round;
      }
      ASSERT_EQ(skipped.Finish(), added.Finish()) << round;
    }
  }
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
