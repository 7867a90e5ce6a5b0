#include "adapters/text/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/text/text_file.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/tokenizer.h"
#include "common/text/tokenizer_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// Text to learn from that lies in the repository.
std::string SampleText() {
  return ReadFile(TestFile("SOURCES.md")) + ReadFile(TestFile("../../README.md"));
}

// Three words and their combinations, so that many pairs are equally frequent.
std::string TextOfTies(uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int word = 0; word < 60; ++word) {
    const size_t length = 1 + random() % 6;
    for (size_t i = 0; i < length; ++i) text += "abcb"[random() % 4];
    text += ' ';
  }
  return text;
}

absl::StatusOr<TokenizerSpec> Train(std::string_view text, size_t tokens) {
  BpeTrainer trainer;
  trainer.Add(text);
  return trainer.Train(tokens);
}

// Byte pair encoding as it is told: count all pairs of the whole text, merge the best, start over.
// Token ids are those of the spec whose merges are to be explained; it gives the bytes.
std::vector<std::pair<TokenId, TokenId>> PlainMerges(std::string_view text,
                                                     const TokenizerSpec& spec, size_t tokens) {
  std::map<std::string, TokenId> ids;
  for (TokenId id = 1; id < 257; ++id) ids[spec.tokens[static_cast<size_t>(id)].text] = id;
  std::vector<std::string> texts(257);
  for (const auto& [bytes, id] : ids) texts[static_cast<size_t>(id)] = bytes;
  std::vector<std::vector<TokenId>> pieces;
  ForEachPiece(BpeTrainer::kPreTokenizer, text, [&](std::string_view bytes) {
    std::vector<TokenId>& piece = pieces.emplace_back();
    for (const char c : bytes) piece.push_back(ids[std::string(1, c)]);
  });
  std::vector<std::pair<TokenId, TokenId>> merges;
  while (texts.size() < tokens) {
    std::map<std::pair<TokenId, TokenId>, int> counts;
    for (const auto& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); ++i) ++counts[{piece[i], piece[i + 1]}];
    }
    // The map is in the order of ids, so the first of the largest is the one of lowest ids.
    const auto best = std::ranges::max_element(counts, {}, [](const auto& e) { return e.second; });
    if (best == counts.end() || best->second < 2) break;
    const auto [left, right] = best->first;
    if (std::ranges::find(merges, best->first) == merges.end()) merges.push_back(best->first);
    const std::string joined = texts[static_cast<size_t>(left)] + texts[static_cast<size_t>(right)];
    const auto [place, is_new] = ids.emplace(joined, static_cast<TokenId>(texts.size()));
    if (is_new) texts.push_back(joined);
    for (auto& piece : pieces) {
      std::vector<TokenId> merged;
      for (size_t i = 0; i < piece.size(); ++i) {
        const bool pair = i + 1 < piece.size() && piece[i] == left && piece[i + 1] == right;
        merged.push_back(pair ? place->second : piece[i]);
        i += pair ? 1 : 0;
      }
      piece = merged;
    }
  }
  return merges;
}

TEST(BpeTrainer, MergesAreThoseOfPlainByteePairEncoding) {
  const std::string sample = SampleText().substr(0, 6000);
  const absl::StatusOr<TokenizerSpec> spec = Train(sample, 420);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->merges, PlainMerges(sample, *spec, 420));
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::string text = TextOfTies(seed);
    const absl::StatusOr<TokenizerSpec> ties = Train(text, 257 + 12);
    ASSERT_TRUE(ties.ok()) << ties.status() << " seed " << seed;
    EXPECT_EQ(ties->merges, PlainMerges(text, *ties, 257 + 12)) << "seed " << seed << ": " << text;
  }
}

TEST(BpeTrainer, DocumentsArePartsOfOneText) {
  BpeTrainer trainer;
  for (uint32_t seed = 0; seed < 4; ++seed) trainer.Add(TextOfTies(seed));
  BpeTrainer backwards;
  for (uint32_t seed = 4; seed-- > 0;) backwards.Add(TextOfTies(seed));
  const absl::StatusOr<TokenizerSpec> a = trainer.Train(280);
  const absl::StatusOr<TokenizerSpec> b = backwards.Train(280);
  ASSERT_TRUE(a.ok() && b.ok());
  ExpectSameSpec(*a, *b);
}

// Written and opened as a user would open them.
class WrittenTokenizer : public testing::TestWithParam<std::string> {
 protected:
  absl::StatusOr<std::unique_ptr<Tokenizer>> WriteAndOpen(const TokenizerSpec& spec) {
    const std::string path = dir_.File(GetParam());
    if (GetParam() == "t.gguf") {
      GgufWriter writer;
      AddTokenizerMetadata(spec, writer);
      OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
      OUTRIDER_RETURN_IF_ERROR(writer.Commit());
      return OpenTokenizer(path);
    }
    OUTRIDER_ASSIGN_OR_RETURN(const TokenizerJson json, TokenizerToJson(spec));
    dir_.Write("tokenizer.json", json.tokenizer);
    dir_.Write("tokenizer_config.json", json.config);
    return OpenTokenizer(dir_.File(""));
  }

  const ScratchDir dir_;
};

TEST_P(WrittenTokenizer, IsTheOneThatWasTrained) {
  const absl::StatusOr<TokenizerSpec> spec = Train(SampleText(), 700);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto tokenizer = WriteAndOpen(*spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectSameSpec(*spec, (*tokenizer)->spec());
  EXPECT_EQ((*tokenizer)->spec().bos, 0);
  EXPECT_EQ((*tokenizer)->spec().eos, 0);
  EXPECT_TRUE((*tokenizer)->IsEndOfGeneration(0));
}

TEST_P(WrittenTokenizer, GivesEveryTextBackAndBeginsItWithTheEnd) {
  const absl::StatusOr<TokenizerSpec> spec = Train(SampleText(), 700);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto tokenizer = WriteAndOpen(*spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<std::string> texts = {SampleText(),
                                    "",
                                    " ",
                                    "\n\n\t x",
                                    "na\xC3\xAFve \xF0\x9F\xA4\x96",
                                    std::string("\0\x01\x7F", 3)};
  // Every character of one and two bytes, and so every byte that occurs in UTF-8 below U+0800.
  std::string& all = texts.emplace_back();
  for (int code = 0; code < 0x80; ++code) all += static_cast<char>(code);
  for (int code = 0x80; code < 0x800; ++code) {
    all += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
  }
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = (*tokenizer)->Encode(text);
    ASSERT_FALSE(ids.empty());
    EXPECT_EQ(ids[0], 0);
    EXPECT_EQ((*tokenizer)->Decode(ids), text);
  }
  // And bytes that are no text: each is a token of its own.
  for (TokenId id = 1; id < 257; ++id) EXPECT_EQ((*tokenizer)->TokenBytes(id).size(), 1u);
  EXPECT_LT((*tokenizer)->Encode(SampleText()).size() * 2, SampleText().size());
}

INSTANTIATE_TEST_SUITE_P(Files, WrittenTokenizer, testing::Values("t.gguf", "tokenizer.json"),
                         [](const auto& suite) {
                           return suite.param == "t.gguf" ? "gguf" : "json";
                         });

TEST(BpeTrainer, RefusesWhatCannotBe) {
  const auto complaint = [](std::string_view text, size_t tokens) {
    return std::string(Message(Train(text, tokens).status()));
  };
  EXPECT_THAT(complaint("some text", 256), HasSubstr("expected 257"));
  EXPECT_THAT(complaint("some text", 1 << 20), HasSubstr("expected 257"));
  EXPECT_THAT(complaint("some text", 300), HasSubstr("give more text"));
  EXPECT_THAT(complaint("", 258), HasSubstr("pairs for 257 tokens, and 258"));
  EXPECT_TRUE(Train("", 257).ok());
}

TEST(TokenizerToJson, SaysWhatItCannotWrite) {
  TokenizerSpec spec = *Train("", 257);
  spec.pre_tokenizer = TokenizerSpec::PreTokenizer::kLlama3;
  EXPECT_EQ(TokenizerToJson(spec).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace outrider
