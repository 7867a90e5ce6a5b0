#include <bit>
#include <limits>
#include <string>
#include <string_view>

#include "common/formats/tokenizers/protobuf_wire.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Model = TokenizerSpec::Model;
using SpacePrefix = TokenizerSpec::SpacePrefix;

// Protocol-buffer fields as bytes.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  return bytes + static_cast<char>(value);
}
std::string Field(uint32_t number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}
std::string Field(uint32_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}
std::string Field(uint32_t number, float value) {
  std::string bytes = Varint(number << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(bits >> shift));
  return bytes;
}
std::string Piece(std::string_view text, float score, TokenKind kind) {
  return Field(1, Field(1, text) + Field(2, score) + Field(3, static_cast<uint64_t>(kind)));
}

std::string Pieces() {
  return Piece("<unk>", 0, TokenKind::kUnknown) + Piece("<s>", 0, TokenKind::kControl) +
         Piece("</s>", 0, TokenKind::kControl) + Piece("<0x41>", 0, TokenKind::kByte) +
         Piece("▁a", -1.5, TokenKind::kNormal) + Piece("<x>", 0, TokenKind::kUserDefined);
}

absl::StatusOr<TokenizerSpec> Read(std::string_view bytes) {
  return TokenizerFromSentencePiece(bytes, "t.model");
}

TEST(TokenizerSentencePiece, ReadsBpe) {
  const absl::StatusOr<TokenizerSpec> spec =
      Read(Pieces() + Field(2, Field(3, uint64_t{2}) + Field(35, uint64_t{1})) +
           Field(3, Field(4, uint64_t{0})));
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kSentencePieceBpe);
  ASSERT_EQ(spec->tokens.size(), 6u);
  EXPECT_EQ(spec->tokens[3].kind, TokenKind::kByte);
  EXPECT_EQ(spec->tokens[4].text, "▁a");
  EXPECT_EQ(spec->tokens[4].score, -1.5);
  EXPECT_TRUE(spec->byte_fallback);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
  EXPECT_FALSE(spec->space_prefix_once);
  EXPECT_FALSE(spec->remove_extra_whitespace);
  EXPECT_EQ(spec->added_tokens.size(), 4u);
  EXPECT_EQ(spec->unknown, 0);
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_FALSE(spec->padding.has_value());
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);
}

TEST(TokenizerSentencePiece, ReadsUnigramWithTheDefaultsOfTheFormat) {
  const absl::StatusOr<TokenizerSpec> spec = Read(Pieces() + Field(3, Field(2, "charsmap")));
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kUnigram);
  EXPECT_EQ(spec->precompiled_charsmap, "charsmap");
  EXPECT_TRUE(spec->remove_extra_whitespace);
  EXPECT_TRUE(spec->space_prefix_once);
  EXPECT_TRUE(spec->add_eos);
  EXPECT_FALSE(spec->add_bos);
}

TEST(TokenizerSentencePiece, NegativeIdsMeanNoSuchToken) {
  const absl::StatusOr<TokenizerSpec> spec = Read(Pieces() + Field(2, Field(41, ~uint64_t{0})));
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_FALSE(spec->bos.has_value());
}

TEST(TokenizerSentencePiece, UnknownFieldsAreSkipped) {
  const std::string unknown = Field(99, "x") + Field(98, uint64_t{7}) + Field(97, 1.0f) +
                              Varint(96 << 3 | 1) + std::string(8, 'x');
  const absl::StatusOr<TokenizerSpec> spec = Read(unknown + Pieces() + unknown);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 6u);
}

TEST(TokenizerSentencePiece, TheModelAndItsJsonAreOneTokenizer) {
  const absl::StatusOr<TokenizerSpec> model =
      Read(ReadFile(TestFile("tokenizers/sentencepiece/test_model.model")));
  const absl::StatusOr<TokenizerSpec> json =
      TokenizerFromJson(ReadFile(TestFile("tokenizers/t5.json")), "t5.json");
  ASSERT_EQ(Outcome(model), "OK");
  ASSERT_EQ(Outcome(json), "OK");
  ExpectSameTokens(*model, *json);
  ExpectSameAddedTokens(*model, *json);
  EXPECT_EQ(model->precompiled_charsmap, json->precompiled_charsmap);
  EXPECT_EQ(model->remove_extra_whitespace, json->remove_extra_whitespace);
  EXPECT_EQ(model->space_prefix, json->space_prefix);
  EXPECT_EQ(model->space_prefix_once, json->space_prefix_once);
  EXPECT_EQ(model->unknown, json->unknown);
  EXPECT_EQ(model->eos, json->eos);
  EXPECT_EQ(model->add_eos, json->add_eos);
}

TEST(TokenizerSentencePiece, ReadsLlama2) {
  const std::string path = ExternalFile("tokenizers/llama2/tokenizer.model");
  OUTRIDER_SKIP_WITHOUT(path);
  const absl::StatusOr<TokenizerSpec> spec = Read(ReadFile(path));
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 32000u);
  EXPECT_EQ(spec->model, Model::kSentencePieceBpe);
  EXPECT_TRUE(spec->byte_fallback);
  EXPECT_TRUE(spec->add_bos);
}

TEST(TokenizerSentencePiece, BadInputGetsASentence) {
  EXPECT_EQ(Outcome(Read("")), "t.model: the vocabulary is empty");
  EXPECT_THAT(Outcome(Read("hello there")), HasSubstr("t.model: is no SentencePiece model"));
  EXPECT_EQ(Outcome(Read(Field(1, "\xFF"))),
            "t.model: is no SentencePiece model or a damaged one: the piece 0 makes no sense from "
            "byte 1 on");
  EXPECT_EQ(Outcome(Read(Field(1, Field(1, "a") + Field(3, uint64_t{9})))),
            "t.model: piece 0 has the unknown type 9");
  EXPECT_EQ(Outcome(Read(Piece("a", 0, TokenKind::kNormal) + Piece("a", 0, TokenKind::kNormal))),
            "t.model: tokens 0 and 1 are both \"a\"");
  EXPECT_EQ(Outcome(Read(Piece("a", std::numeric_limits<float>::quiet_NaN(), TokenKind::kNormal))),
            "t.model: token 0 (\"a\") has a score that is not a finite number");
  EXPECT_EQ(Outcome(Read(Pieces() + Field(2, Field(3, uint64_t{4})))),
            "t.model: is a SentencePiece model of type 4; only unigram (1) and BPE (2) are "
            "supported");
  EXPECT_EQ(Outcome(Read(Pieces() + Field(2, Field(42, uint64_t{77})))),
            "t.model: the eos token is 77, but the vocabulary has 6 tokens");
  EXPECT_THAT(Outcome(Read(Pieces() + Field(2, Field(24, uint64_t{1})))),
              HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_THAT(Outcome(Read(Pieces() + Field(3, Field(5, uint64_t{0})))),
              HasSubstr("escape_whitespaces"));
}

TEST(TokenizerSentencePiece, NoTruncationReadsPastTheEnd) {
  const std::string whole = Pieces() + Field(2, Field(3, uint64_t{2}));
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    // A copy of just that size, so that a sanitizer sees the end.
    refused += Read(std::string(whole.data(), size)).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, whole.size() * 9 / 10);  // a cut between two messages is a shorter model
  EXPECT_EQ(Outcome(Read(whole)), "OK");
}

TEST(ProtobufReader, ReadsEachWireType) {
  const std::string bytes = Field(1, uint64_t{300}) + Field(2, "text") + Field(3, 2.5f) +
                            Varint(4 << 3 | 1) + std::string(8, 'x') + Field(5, ~uint64_t{0});
  ProtobufReader reader(bytes);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field(), 1u);
  EXPECT_EQ(reader.varint(), 300u);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.bytes(), "text");
  EXPECT_EQ(reader.varint(), 0u);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.float32(), 2.5f);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field(), 4u);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.int32(), -1);
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.ok());
}

TEST(ProtobufReader, RefusesWhatIsNoMessage) {
  for (const std::string& bad :
       {std::string("\x00\x01", 2),  // field number 0
        std::string("\x0b"),         // a group
        std::string("\x0f"),         // wire type 7
        std::string("\x08"),         // no value
        std::string("\x08\x80"),     // half a varint
        std::string("\x0a\x05"
                    "abc"),                                           // shorter than it says
        std::string("\x0d\x01\x02"),                                  // half a fixed32
        std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  // 2^64 - 1 bytes long
        std::string("\x08") + std::string(11, '\xff')}) {             // a varint of 11 bytes
    ProtobufReader reader(bad);
    EXPECT_FALSE(reader.Next()) << testing::PrintToString(bad);
    EXPECT_FALSE(reader.ok()) << testing::PrintToString(bad);
  }
}

}  // namespace
}  // namespace outrider
