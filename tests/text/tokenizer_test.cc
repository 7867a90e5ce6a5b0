#include "common/text/tokenizer.h"

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/text/charsmap_bytes.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string ErrorOf(TokenizerSpec spec) {
  return std::string(Message(Tokenizer::Create(std::move(spec)).status()));
}

// The texts of the ids, as the vocabulary spells them.
std::vector<std::string> Tokens(const Tokenizer& tokenizer, std::string_view text,
                                EncodeOptions options = {}) {
  std::vector<std::string> tokens;
  for (const TokenId id : tokenizer.Encode(text, options)) {
    tokens.push_back(tokenizer.spec().tokens[static_cast<size_t>(id)].text);
  }
  return tokens;
}

TEST(ByteLevelBpe, MergesByRankInsideWords) {
  const auto tokenizer = Make(SmallByteLevel());
  EXPECT_THAT(Tokens(*tokenizer, "hello hello"), ElementsAre("hello", " hello"));
  EXPECT_THAT(Tokens(*tokenizer, "lll"), ElementsAre("ll", "l"));  // of equals the leftmost
  EXPECT_THAT(Tokens(*tokenizer, "é語"), ElementsAre("é", "\xE8", "\xAA", "\x9E"));
}

TEST(ByteLevelBpe, APieceThatIsATokenStillNeedsTheMerges) {
  TokenizerSpec spec = SmallByteLevel();
  AddToken(spec, "to");  // no merge makes it
  EXPECT_THAT(Tokens(*Make(spec), "to"), ElementsAre("t", "o"));
  const auto tokenizer = Make(spec);
  EXPECT_EQ(tokenizer->Encode("to to"), tokenizer->Encode("to to"));  // the second time from memory
  spec.ignore_merges = true;
  EXPECT_THAT(Tokens(*Make(spec), "to"), ElementsAre("to"));
}

TEST(ByteLevelBpe, AByteThatIsNoTokenIsUnknownOrDropped) {
  TokenizerSpec spec = SmallByteLevel();
  spec.tokens['z'].text = "zz";
  EXPECT_THAT(Tokens(*Make(spec), "yzy"), ElementsAre("y", "y"));
  spec.unknown = AddToken(spec, "<unk>", TokenKind::kUnknown);
  EXPECT_THAT(Tokens(*Make(spec), "yzy"), ElementsAre("y", "<unk>", "y"));
}

TEST(SentencePieceBpe, MergesByScoreAndFallsBackToBytes) {
  const auto tokenizer = Make(SmallSentencePiece());
  // ▁a scores highest; then there is no ab to make.
  EXPECT_THAT(Tokens(*tokenizer, "ab"), ElementsAre("▁a", "b"));
  EXPECT_THAT(Tokens(*tokenizer, "abc"), ElementsAre("▁abc"));  // by way of ▁a and bc
  EXPECT_THAT(Tokens(*tokenizer, "b語"), ElementsAre("▁", "b", "<0xE8>", "<0xAA>", "<0x9E>"));
}

TEST(SentencePieceBpe, ThePrefixComesInAnyCaseOrOnlyWhereNoSpaceIs) {
  TokenizerSpec spec = SmallSentencePiece();
  EXPECT_THAT(Tokens(*Make(spec), " a"), ElementsAre("▁", "▁a"));
  EXPECT_THAT(Tokens(*Make(spec), "a<s>a"), ElementsAre("▁a", "<s>", "▁a"));
  spec.space_prefix = TokenizerSpec::SpacePrefix::kFirst;
  EXPECT_THAT(Tokens(*Make(spec), "a<s>a"), ElementsAre("▁a", "<s>", "a"));
  spec.space_prefix_once = true;
  EXPECT_THAT(Tokens(*Make(spec), " a<s> a"), ElementsAre("▁a", "<s>", "▁a"));
  spec.space_prefix = TokenizerSpec::SpacePrefix::kNever;
  EXPECT_THAT(Tokens(*Make(spec), "a"), ElementsAre("a"));
  EXPECT_TRUE(Make(spec)->Encode("").empty());
}

TEST(SentencePieceBpe, UnknownCharactersFuseWhenAsked) {
  TokenizerSpec spec = SmallSentencePiece();
  spec.byte_fallback = false;
  EXPECT_THAT(Tokens(*Make(spec), "a語語b語"), ElementsAre("▁a", "<unk>", "b", "<unk>"));
  spec.fuse_unknown = false;
  EXPECT_THAT(Tokens(*Make(spec), "a語語"), ElementsAre("▁a", "<unk>", "<unk>"));
}

TEST(SentencePieceBpe, MergesByRankWhereThereAreMerges) {
  TokenizerSpec spec = SmallSentencePiece();
  AddMerge(spec, "a", "b");
  AddMerge(spec, "ab", "c");
  EXPECT_THAT(Tokens(*Make(spec), "abc"), ElementsAre("▁", "abc"));
}

// Words are encoded one by one where that cannot be seen. A token that crosses them forbids it, and
// must be found.
TEST(SentencePieceBpe, TokensMayCrossWords) {
  TokenizerSpec spec = SmallSentencePiece();
  AddToken(spec, "b▁", TokenKind::kNormal, 10);
  AddToken(spec, "b▁a", TokenKind::kNormal, 9);
  EXPECT_THAT(Tokens(*Make(spec), "b a"), ElementsAre("▁", "b▁a"));
}

// A character can be part of tokens without being one.
TEST(SentencePieceBpe, MergesByScoreLookAtTheJoinedTextOnly) {
  TokenizerSpec spec = SmallSentencePiece();
  AddToken(spec, "aß", TokenKind::kNormal, 5);
  EXPECT_THAT(Tokens(*Make(spec), "aß"), ElementsAre("▁", "aß"));
  EXPECT_THAT(Tokens(*Make(spec), "bß"), ElementsAre("▁", "b", "<0xC3>", "<0x9F>"));
}

TEST(Unigram, TakesTheBestSum) {
  const auto tokenizer = Make(SmallUnigram());
  EXPECT_THAT(Tokens(*tokenizer, "ab"), ElementsAre("▁", "ab"));    // -7 against -9 for ▁a b
  EXPECT_THAT(Tokens(*tokenizer, "abc"), ElementsAre("▁a", "bc"));  // -10 against -11 for ▁ ab c
  EXPECT_THAT(Tokens(*tokenizer, "b bc"), ElementsAre("▁", "b", "▁", "bc"));
}

TEST(Unigram, OfEqualSumsTheFirstFoundStays) {
  TokenizerSpec spec = SmallUnigram();
  AddToken(spec, "bb", TokenKind::kNormal,
           -8);  // found before the second b of b b, which sum to as much
  EXPECT_THAT(Tokens(*Make(spec), "bb"), ElementsAre("▁", "bb"));
}

TEST(Unigram, ARunOfUnknownCharactersIsOneToken) {
  const auto tokenizer = Make(SmallUnigram());
  EXPECT_THAT(Tokens(*tokenizer, "a語語語a 語"), ElementsAre("▁a", "<unk>", "a", "▁", "<unk>"));
}

TEST(Unigram, FallsBackToBytesWhenAsked) {
  TokenizerSpec spec = SmallUnigram();
  spec.byte_fallback = true;
  AddByteTokens(spec);
  EXPECT_THAT(Tokens(*Make(spec), "a語"), ElementsAre("▁a", "<0xE8>", "<0xAA>", "<0x9E>"));
}

TEST(Unigram, ExtraWhiteSpaceGoes) {
  const auto tokenizer = Make(SmallUnigram());
  EXPECT_EQ(tokenizer->Encode("  a   b \n "), tokenizer->Encode("a b"));
  EXPECT_TRUE(tokenizer->Encode(" \n ").empty());
}

TEST(Unigram, WordsOfTheirOwn) {
  TokenizerSpec spec = SmallUnigram();
  spec.split_on_whitespace = true;
  EXPECT_THAT(Tokens(*Make(spec), "a\na\t"), ElementsAre("▁a", "▁a"));
}

TEST(Normalizing, NfcAndCharsmapComeBeforeTheModel) {
  TokenizerSpec bytes = SmallByteLevel();
  bytes.nfc = true;
  EXPECT_THAT(Tokens(*Make(bytes), "e\u0301"), ElementsAre("é"));
  TokenizerSpec unigram = SmallUnigram();
  unigram.precompiled_charsmap = CharsmapBytes({{"Ａ", "a"}, {"\u3000", " "}}).bytes();
  EXPECT_THAT(Tokens(*Make(unigram), "Ａ\u3000b"), ElementsAre("▁a", "▁", "b"));
}

TEST(AddedTokensInText, NormalizedOnesMatchTheNormalizedText) {
  TokenizerSpec spec = SmallByteLevel();
  spec.nfc = true;
  spec.added_tokens.push_back(
      {.id = AddToken(spec, "[é]", TokenKind::kUserDefined), .text = "[é]", .normalized = true});
  EXPECT_THAT(Tokens(*Make(spec), "x[e\u0301]x"), ElementsAre("x", "[é]", "x"));
  spec.added_tokens.back().normalized = false;
  EXPECT_THAT(Tokens(*Make(spec), "x[e\u0301]"), ElementsAre("x", "[", "é", "]"));
}

// Untrusted text must not steer the model, by whatever path the ids come about.
TEST(ParseSpecial, WithoutItNoTextBecomesAControlToken) {
  TokenizerSpec bytes = SmallByteLevel();
  bytes.ignore_merges = true;
  AddMerge(bytes, "<", "|");
  bytes.merges.emplace_back(IdOf(bytes, "<|"),
                            AddToken(bytes, "end|>"));  // makes the text of the control token
  for (const TokenizerSpec& spec : {bytes, SmallSentencePiece(), SmallUnigram()}) {
    const auto tokenizer = Make(spec);
    for (const std::string text : {"<|end|>", "a<s>", "</s>", "<unk>", "<s", "<tool>"}) {
      for (const TokenId id :
           tokenizer->Encode(text, {.add_special = false, .parse_special = false})) {
        const TokenKind kind = spec.tokens[static_cast<size_t>(id)].kind;
        EXPECT_NE(kind, TokenKind::kControl) << text;
      }
    }
  }
  const auto tokenizer = Make(bytes);
  EXPECT_THAT(Tokens(*tokenizer, "<|end|>"), ElementsAre("<|end|>"));
  EXPECT_THAT(Tokens(*tokenizer, "<tool>", {.parse_special = false}), ElementsAre("<tool>"));
}

TEST(Encode, BosAndEosWhereTheModelAsksForThem) {
  TokenizerSpec spec = SmallSentencePiece();
  spec.add_bos = spec.add_eos = true;
  const auto tokenizer = Make(spec);
  EXPECT_THAT(Tokens(*tokenizer, "a"), ElementsAre("<s>", "▁a", "</s>"));
  EXPECT_THAT(Tokens(*tokenizer, ""), ElementsAre("<s>", "</s>"));
  EXPECT_THAT(Tokens(*tokenizer, "a", {.add_special = false}), ElementsAre("▁a"));
}

TEST(Encode, BrokenUtf8CountsAsReplacementCharacters) {
  for (const TokenizerSpec& spec : {SmallByteLevel(), SmallSentencePiece(), SmallUnigram()}) {
    const auto tokenizer = Make(spec);
    EXPECT_EQ(tokenizer->Encode("a\xE8\xAAz\xFF"), tokenizer->Encode("a\uFFFDz\uFFFD"));
  }
}

// A megabyte without a place to cut: a quadratic merge loop or search would take minutes.
TEST(Encode, OnePieceOfAMegabyteIsNoAttack) {
  for (const TokenizerSpec& spec : {SmallByteLevel(), SmallSentencePiece(), SmallUnigram()}) {
    const auto tokenizer = Make(spec);
    for (const std::string unit : {"l", " ", "ab", "語", "he"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const std::vector<TokenId> ids = tokenizer->Encode(text);
      EXPECT_LE(ids.size(), text.size() + 3);
    }
  }
}

TEST(Encode, ThreadsShareATokenizer) {
  const auto tokenizer = Make(SmallByteLevel());
  const std::string text = "hello to hello the hello é é lll to to hello";
  const std::vector<TokenId> expected = Make(SmallByteLevel())->Encode(text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) EXPECT_EQ(tokenizer->Encode(text), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Decode, ByteLevelTextReturnsWhole) {
  const auto tokenizer = Make(SmallByteLevel());
  for (const std::string text : {"hello, é語😀\n\n  x", " leading", "", "\u2581 \u0301"}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
}

TEST(Decode, SentencePieceDropsThePrefixOnce) {
  const auto tokenizer = Make(SmallSentencePiece());
  for (const std::string text : {"abc a", " a", "a  b", "語é"}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
}

TEST(Decode, SpecialTokensPrintOnlyWhenAsked) {
  const auto tokenizer = Make(SmallByteLevel());
  const std::vector<TokenId> ids = tokenizer->Encode("hello<|end|><tool>");
  EXPECT_EQ(tokenizer->Decode(ids), "hello<tool>");
  EXPECT_EQ(tokenizer->Decode(ids, /*skip_special=*/false), "hello<|end|><tool>");
}

TEST(Decode, IdsOutsideTheVocabularyPrintNothing) {
  const auto tokenizer = Make(SmallByteLevel());
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{-1, 'a', tokenizer->vocabulary_size(), 'b',
                                                   INT32_MAX, INT32_MIN}),
            "ab");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_FALSE(tokenizer->IsSpecial(INT32_MAX));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(-5));
}

TEST(TokenBytes, AreWhatATokenAddsInTheMiddleOfAText) {
  const auto tokenizer = Make(SmallSentencePiece());
  const TokenizerSpec& spec = tokenizer->spec();
  EXPECT_EQ(tokenizer->TokenBytes(IdOf(spec, "▁abc")), " abc");
  EXPECT_EQ(tokenizer->TokenBytes(IdOf(spec, "<0x0A>")), "\n");
  EXPECT_EQ(tokenizer->TokenBytes(IdOf(spec, "<s>")), "<s>");
}

TEST(EndOfGeneration, IsEosAndEotAndEomAndTheWellKnownTexts) {
  TokenizerSpec spec = SmallByteLevel();
  const TokenId im_end = AddAdded(spec, "<|im_end|>", /*special=*/true);
  const TokenId eot = spec.eot.emplace(AddAdded(spec, "<stop>", /*special=*/true));
  const TokenId plain = AddToken(spec, "<end_of_turn>");  // a normal token is just text
  const auto tokenizer = Make(spec);
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*spec.eos));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(im_end));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(eot));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(plain));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration('a'));
}

TEST(EndOfGeneration, AMessagesEndIsNotAReplysEndWhereTheModelKnowsTheDifference) {
  TokenizerSpec spec = SmallByteLevel();  // has <|end|>
  spec.eos = AddAdded(spec, "<|return|>", /*special=*/true);
  EXPECT_TRUE(Make(spec)->IsEndOfGeneration(IdOf(spec, "<|end|>")));
  const TokenId call = AddAdded(spec, "<|call|>", /*special=*/true);
  const auto tokenizer = Make(spec);
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(IdOf(spec, "<|end|>")));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*spec.eos));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(call));
}

TEST(Create, RefusesSpecsThatContradictThemselves) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("vocabulary is empty"));

  TokenizerSpec spec = SmallByteLevel();
  spec.merges.emplace_back(1, 99999);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("joins tokens 1 and 99999"));

  spec = SmallByteLevel();
  spec.merges.emplace_back('q', 'x');
  EXPECT_THAT(ErrorOf(spec), HasSubstr("makes \"qx\", which is no token"));

  spec = SmallByteLevel();
  spec.eos = -3;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("eos is token -3"));

  spec = SmallByteLevel();
  spec.add_bos = true;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("there is no bos token"));

  spec = SmallByteLevel();
  spec.added_tokens.push_back({.id = 0, .text = "\x80"});
  EXPECT_THAT(ErrorOf(spec), HasSubstr("added token 0 is not UTF-8"));
  spec.added_tokens.back() = {.id = 0, .text = ""};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("added token 0 has no text"));
  spec.added_tokens.back() = {.id = 100000, .text = "x"};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("\"x\" is token 100000"));

  spec = SmallSentencePiece();
  AddToken(spec, "\xE8");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("is not UTF-8"));
  spec.tokens.back() = {"x", std::numeric_limits<float>::quiet_NaN(), TokenKind::kNormal};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("the score of token"));
  spec.tokens.back() = {std::string(5000, 'x'), 0, TokenKind::kNormal};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("5000 bytes"));

  spec = SmallUnigram();
  spec.unknown.reset();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("needs an unknown token"));
  spec = SmallUnigram();
  spec.precompiled_charsmap = "x";
  EXPECT_THAT(ErrorOf(spec), HasSubstr("precompiled_charsmap"));
}

}  // namespace
}  // namespace outrider
