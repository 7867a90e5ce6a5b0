#include <string>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/base64.h"
#include "common/formats/tokenizers/json_fields.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/tokenizer_specs.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Model = TokenizerSpec::Model;
using PreTokenizer = TokenizerSpec::PreTokenizer;
using SpacePrefix = TokenizerSpec::SpacePrefix;

const json kByteLevel = {
    {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};

json Bpe() {
  return {{"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", kByteLevel},
          {"post_processor", kByteLevel},
          {"decoder", kByteLevel},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"Ġ", 2}, {"ab", 3}, {"Ġab", 4}}},
            {"merges", {"a b", "Ġ ab"}}}}};
}

json Metaspace(const char* scheme, bool split) {
  return {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

json SentencePieceBpe() {
  json file = Bpe();
  file["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "▁"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  file["pre_tokenizer"] = file["post_processor"] = file["decoder"] = nullptr;
  file["model"] = {{"type", "BPE"},
                   {"unk_token", "<unk>"},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"vocab", {{"<unk>", 0}, {"<0x0A>", 1}, {"a", 2}, {"▁", 3}, {"▁a", 4}}},
                   {"merges", R"([["▁", "a"]])"_json}};
  return file;
}

json Unigram() {
  json file = SentencePieceBpe();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = Metaspace("always", true);
  file["model"] = {{"type", "Unigram"},
                   {"unk_id", 0},
                   {"vocab", R"([["<unk>", 0.0], ["▁", -1.5], ["▁a", -2.25]])"_json}};
  return file;
}

absl::StatusOr<TokenizerSpec> Read(const json& file) {
  return TokenizerFromJson(file.dump(), "t.json");
}

TEST(TokenizerJson, ReadsByteLevelBpe) {
  const absl::StatusOr<TokenizerSpec> spec = Read(Bpe());
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kByteLevelBpe);
  EXPECT_EQ(spec->pre_tokenizer, PreTokenizer::kGpt2);
  ASSERT_EQ(spec->tokens.size(), 5u);
  EXPECT_EQ(spec->tokens[4].text, " ab");
  EXPECT_THAT(spec->merges, ElementsAre(Pair(0, 1), Pair(2, 3)));
  EXPECT_FALSE(spec->nfc);
  EXPECT_FALSE(spec->ignore_merges);
}

TEST(TokenizerJson, MergesReadTheSameInBothSpellings) {
  json pairs = Bpe();
  pairs["model"]["merges"] = R"([["a", "b"], ["Ġ", "ab"]])"_json;
  const absl::StatusOr<TokenizerSpec> spec = Read(pairs);
  ASSERT_EQ(Outcome(spec), "OK");
  ExpectSameSpec(*Read(Bpe()), *spec);
}

TEST(TokenizerJson, KnowsThePreTokenizersByTheirExpressions) {
  json file = Bpe();
  json bytes = kByteLevel;
  bytes["use_regex"] = false;
  const auto with = [&](const std::string& regex) {
    file["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers",
                              {{{"type", "Split"},
                                {"pattern", {{"Regex", regex}}},
                                {"behavior", "Isolated"},
                                {"invert", false}},
                               bytes}}};
    return Read(file);
  };
  const std::string head = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(with(head + R"(\p{N}{1,3})" + tail)->pre_tokenizer, PreTokenizer::kLlama3);
  EXPECT_EQ(with(head + R"(\p{N})" + tail)->pre_tokenizer, PreTokenizer::kQwen2);
  EXPECT_EQ(Outcome(with(head + R"(\p{N}{1,4})" + tail)),
            Concat("t.json: pre_tokenizer that cuts by ", Quote(head + R"(\p{N}{1,4})" + tail),
                   " is not supported in this place or with these settings"));
}

TEST(TokenizerJson, AVocabularyThatIsMostlyGapsIsRefused) {
  json file = Bpe();
  const int64_t texts = static_cast<int64_t>(Read(file)->tokens.size());
  const auto with_last_id = [&](int64_t id) {
    file["added_tokens"] = {{{"id", id}, {"content", "<far>"}, {"special", true}}};
    return Outcome(Read(file));
  };
  // Ids 0..last hold texts + 1 texts; as many gaps and 1,024 more are allowed.
  const int64_t last = 2 * (texts + 1) + 1024 - 1;
  EXPECT_EQ(with_last_id(last), "OK");
  EXPECT_EQ(with_last_id(last + 1),
            Concat("t.json: ids run to ", last + 1, ", but only ", texts + 1,
                   " of them have a text; the ids are damaged or most tokens are missing"));
}

TEST(TokenizerJson, AddedTokensBringTheirFlagsExtendTheVocabularyAndLeavePadding) {
  json file = Bpe();
  file["added_tokens"] = {{{"id", 7}, {"content", "<e>"}, {"special", true}, {"lstrip", true}},
                          {{"id", 8},
                           {"content", "  "},
                           {"special", false},
                           {"rstrip", true},
                           {"single_word", true},
                           {"normalized", true}},
                          {{"id", 3}, {"content", "ab"}, {"special", false}}};
  const absl::StatusOr<TokenizerSpec> spec = Read(file);
  ASSERT_EQ(Outcome(spec), "OK");
  ASSERT_EQ(spec->tokens.size(), 9u);
  EXPECT_EQ(spec->tokens[5].kind, TokenKind::kUnused);
  EXPECT_EQ(spec->tokens[5].text, "[PAD5]");
  EXPECT_EQ(spec->tokens[7].kind, TokenKind::kControl);
  EXPECT_EQ(spec->tokens[8].text, "  ");
  EXPECT_EQ(spec->tokens[8].kind, TokenKind::kUserDefined);
  EXPECT_EQ(spec->tokens[3].kind, TokenKind::kUserDefined);
  ASSERT_EQ(spec->added_tokens.size(), 3u);
  EXPECT_TRUE(spec->added_tokens[0].strip_left);
  EXPECT_FALSE(spec->added_tokens[0].normalized);
  EXPECT_TRUE(spec->added_tokens[1].strip_right);
  EXPECT_TRUE(spec->added_tokens[1].single_word);
  EXPECT_TRUE(spec->added_tokens[1].normalized);
}

TEST(TokenizerJson, ReadsLlamaStyleBpe) {
  const absl::StatusOr<TokenizerSpec> spec = Read(SentencePieceBpe());
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kSentencePieceBpe);
  EXPECT_EQ(spec->tokens[0].kind, TokenKind::kUnknown);
  EXPECT_EQ(spec->tokens[1].kind, TokenKind::kByte);
  EXPECT_EQ(spec->unknown, 0);
  EXPECT_TRUE(spec->byte_fallback);
  EXPECT_TRUE(spec->fuse_unknown);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kAlways);
  EXPECT_FALSE(spec->space_prefix_once);
  EXPECT_THAT(spec->merges, ElementsAre(Pair(3, 2)));
  EXPECT_EQ(spec->tokens[4].score, -1);
}

TEST(TokenizerJson, ReadsMetaspaceInsteadOfPrepend) {
  json file = SentencePieceBpe();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = Metaspace("first", false);
  const absl::StatusOr<TokenizerSpec> spec = Read(file);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kFirst);
  EXPECT_TRUE(spec->space_prefix_once);

  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", false}};
  EXPECT_EQ(Read(file)->space_prefix, SpacePrefix::kNever);
}

TEST(TokenizerJson, MetaspaceMayCutBpeOnlyWhereNoTokenReachesAcross) {
  json file = SentencePieceBpe();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = Metaspace("always", true);
  EXPECT_EQ(Outcome(Read(file)), "OK");
  file["model"]["vocab"]["a▁b"] = 5;
  EXPECT_EQ(
      Outcome(Read(file)),
      "t.json: pre_tokenizer Metaspace splits at spaces, but token \"a\\xe2\\x96\\x81b\" reaches "
      "across one, which is not supported");
  file["pre_tokenizer"] = Metaspace("always", false);
  EXPECT_EQ(Outcome(Read(file)), "OK");
}

TEST(TokenizerJson, ReadsT5Unigram) {
  json file = Unigram();
  file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AQID"}};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "WhitespaceSplit"}}, Metaspace("always", true)}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "</s>"}}}}}},
      {"special_tokens", {{"</s>", {{"id", "</s>"}, {"ids", {2}}}}}}};
  const absl::StatusOr<TokenizerSpec> spec = Read(file);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->model, Model::kUnigram);
  EXPECT_EQ(spec->precompiled_charsmap, "\1\2\3");
  EXPECT_TRUE(spec->split_on_whitespace);
  EXPECT_TRUE(spec->cut_at_spaces);
  EXPECT_EQ(spec->tokens[2].score, -2.25);
  EXPECT_EQ(spec->unknown, 0);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_TRUE(spec->add_eos);
  EXPECT_FALSE(spec->add_bos);
}

TEST(TokenizerJson, ReadsWhatAPostProcessorPutsAround) {
  json file = Bpe();
  const json bos = {{"SpecialToken", {{"id", "<s>"}}}};
  const json text = {{"Sequence", {{"id", "A"}}}};
  json processor = {{"type", "TemplateProcessing"},
                    {"single", {bos, text}},
                    {"special_tokens", {{"<s>", {{"ids", {1}}}}}}};
  file["post_processor"] = {{"type", "Sequence"}, {"processors", {kByteLevel, processor}}};
  absl::StatusOr<TokenizerSpec> spec = Read(file);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->bos, 1);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);

  processor["single"] = {bos, bos, text};
  file["post_processor"] = processor;
  EXPECT_THAT(Outcome(Read(file)), HasSubstr("two special tokens on one side"));
  processor["single"] = json::array({bos});
  file["post_processor"] = processor;
  EXPECT_THAT(Outcome(Read(file)), HasSubstr("TemplateProcessing without a text"));
  processor["single"] = {bos, text};
  processor["special_tokens"]["<s>"]["ids"] = {99};
  file["post_processor"] = processor;
  EXPECT_EQ(Outcome(Read(file)), "t.json: the bos token is 99, but the vocabulary has 5 tokens");

  file["post_processor"] = {{"type", "RobertaProcessing"}, {"sep", {"b", 1}}, {"cls", {"a", 0}}};
  spec = Read(file);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->bos, 0);
  EXPECT_EQ(spec->eos, 1);
  EXPECT_TRUE(spec->add_bos && spec->add_eos);
}

TEST(TokenizerJson, NamesTheStepItCannotRun) {
  const auto with = [](const char* part, const json& step) {
    json file = Bpe();
    file[part] = step;
    return Read(file).status();
  };
  const std::string end = " is not supported in this place or with these settings";
  for (const auto& [part, step, what] :
       std::initializer_list<std::tuple<const char*, json, const char*>>{
           {"normalizer", {{"type", "Lowercase"}}, "normalizer Lowercase"},
           {"normalizer", {{"type", "NFKC"}}, "normalizer NFKC"},
           {"normalizer", {{"kind", "NFC"}}, "normalizer a step without a type"},
           {"pre_tokenizer",
            {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Whitespace"}}, kByteLevel}}},
            "pre_tokenizer Whitespace"},
           {"pre_tokenizer",
            {{"type", "Sequence"},
             {"pretokenizers", {{{"type", "Punctuation"}, {"behavior", "Isolated"}}, kByteLevel}}},
            "pre_tokenizer Punctuation"},
           {"pre_tokenizer",
            {{"type", "ByteLevel"}, {"add_prefix_space", true}},
            "pre_tokenizer ByteLevel with add_prefix_space"},
           {"pre_tokenizer",
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}},
            "pre_tokenizer that cuts by nothing"},
           {"post_processor", {{"type", "BertProcessing"}}, "post_processor BertProcessing"},
           {"decoder", {{"type", "WordPiece"}}, "decoder WordPiece"},
       }) {
    const absl::Status status = with(part, step);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << what;
    EXPECT_EQ(Outcome(status), Concat("t.json: ", what, end));
  }
}

TEST(TokenizerJson, RefusesModelsOfOtherKinds) {
  json file = Bpe();
  file["model"]["type"] = "WordPiece";
  EXPECT_EQ(Outcome(Read(file)),
            "t.json: model.type is \"WordPiece\"; only BPE and Unigram are supported");
  file = Bpe();
  file["model"]["continuing_subword_prefix"] = "##";
  EXPECT_EQ(Outcome(Read(file)),
            "t.json: model.continuing_subword_prefix is \"##\", which is not supported");
  file = SentencePieceBpe();
  file["normalizer"] = nullptr;
  EXPECT_THAT(Outcome(Read(file)), HasSubstr("neither normalizer nor pre_tokenizer turns spaces"));
}

TEST(TokenizerJson, BadInputGetsASentence) {
  const auto with = [](const char* pointer, const json& value) {
    json file = Bpe();
    file[json::json_pointer(pointer)] = value;
    return Outcome(Read(file));
  };
  EXPECT_EQ(Outcome(TokenizerFromJson("", "t.json")),
            "t.json: ends after 0 bytes in the middle of its JSON; it is cut off, fetch it again");
  EXPECT_EQ(Outcome(TokenizerFromJson("[1]", "t.json")),
            "t.json: is no tokenizer.json: it has no object named model");
  EXPECT_EQ(with("/model/vocab", 7), "t.json: model.vocab is missing or not an object");
  EXPECT_EQ(with("/model/vocab", json::object()),
            "t.json: merge 0 (\"a\" \"b\") uses \"a\", which is no token");
  EXPECT_EQ(with("/model/vocab/a", 1), "t.json: token id 1 is given to both \"a\" and \"b\"");
  EXPECT_EQ(with("/model/vocab/a", -1),
            "t.json: token id -1 is out of bounds; ids run from 0 to 1048575");
  EXPECT_EQ(with("/model/vocab/a", 4000000000u),
            "t.json: token id 4000000000 is out of bounds; ids run from 0 to 1048575");
  EXPECT_EQ(with("/model/vocab/a", 18446744073709551615u),
            "t.json: model.vocab: an id is not a whole number");
  EXPECT_EQ(with("/model/vocab/a", 1.5), "t.json: model.vocab: an id is not a whole number");
  EXPECT_EQ(with("/model/vocab/x y", 9),
            "t.json: token 9 (\"x y\") has characters outside the byte alphabet of its model");
  EXPECT_EQ(with("/model/merges", nullptr), "t.json: model.merges is missing or not an array");
  EXPECT_EQ(with("/model/merges/0", "ab"),
            "t.json: merge 0 (\"ab\") is not two tokens with a space between them");
  EXPECT_EQ(with("/model/merges/0", "a c"),
            "t.json: merge 0 (\"a\" \"c\") uses \"c\", which is no token");
  EXPECT_EQ(with("/model/merges/0", "b a"),
            "t.json: merge 0 (\"b\" \"a\") makes a text that is no token");
  EXPECT_EQ(with("/model/merges/1", R"(["a"])"_json),
            "t.json: model.merges[1] is neither \"left right\" nor [left, right]");
  EXPECT_EQ(with("/model/unk_token", "zz"), "t.json: model.unk_token \"zz\" is no token");
  EXPECT_EQ(with("/model/ignore_merges", "yes"),
            "t.json: model.ignore_merges is of type string, not a boolean");
  EXPECT_EQ(with("/added_tokens", 1), "t.json: added_tokens is not an array");
  EXPECT_EQ(with("/added_tokens", {{{"content", "x"}}}),
            "t.json: an entry of added_tokens has no id");
  EXPECT_EQ(with("/added_tokens", {{{"id", 9}}}), "t.json: added token 9 has no text");
  EXPECT_EQ(with("/added_tokens", {{{"id", 1}, {"content", "x"}}}),
            "t.json: added token \"x\" has id 1, which is \"b\" in the vocabulary");
  EXPECT_EQ(with("/added_tokens", {{{"id", 9}, {"content", "a"}}}),
            "t.json: added token \"a\" has id 9 but is token 0 already");
  EXPECT_EQ(with("/added_tokens", {{{"id", 1 << 30}, {"content", "x"}}}),
            "t.json: token id 1073741824 is out of bounds; ids run from 0 to 1048575");
}

TEST(TokenizerJson, BadUnigramGetsASentence) {
  const auto with = [](const char* pointer, const json& value) {
    json file = Unigram();
    file[json::json_pointer(pointer)] = value;
    return Outcome(Read(file));
  };
  EXPECT_EQ(with("/model/vocab", json::array()),
            "t.json: the unknown token is 0, but the vocabulary has 0 tokens");
  EXPECT_EQ(with("/model/vocab/1", "a"), "t.json: model.vocab[1] is not [text, score]");
  EXPECT_EQ(with("/model/vocab/1", R"(["▁a", -1])"_json),
            "t.json: tokens 1 and 2 are both \"\\xe2\\x96\\x81a\"");
  EXPECT_EQ(with("/model/vocab/1", R"(["a", 1e300])"_json),
            "t.json: token 1 (\"a\") has a score that is not a finite number");
  EXPECT_EQ(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "A?=="}}),
            "t.json: normalizer.precompiled_charsmap is not base64");
}

TEST(TokenizerJson, DeepNestingIsRefusedNotFollowed) {
  json step = kByteLevel;
  for (int i = 0; i < 20; ++i) step = {{"type", "Sequence"}, {"pretokenizers", {step}}};
  json file = Bpe();
  file["pre_tokenizer"] = step;
  EXPECT_EQ(Outcome(Read(file)), "t.json: pre_tokenizer nests its sequences more than 8 deep");
  EXPECT_THAT(Outcome(TokenizerFromJson(std::string(1000000, '['), "t.json")),
              HasSubstr("in the middle of its JSON"));
}

TEST(TokenizerJson, EveryTruncationIsRefused) {
  const std::string whole = Bpe().dump();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(TokenizerFromJson(whole.substr(0, size), "t.json").ok()) << size;
  }
  EXPECT_TRUE(TokenizerFromJson(whole, "t.json").ok());
}

TEST(TokenizerJson, ReadsTheUnigramFileThatMadeTheGoldenIds) {
  const absl::StatusOr<TokenizerSpec> spec =
      TokenizerFromJson(ReadFile(TestFile("tokenizers/t5.json")), "t5.json");
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 1000u);
  EXPECT_TRUE(spec->remove_extra_whitespace);
  EXPECT_TRUE(spec->space_prefix_once);
  EXPECT_EQ(spec->precompiled_charsmap.size(), 237484u);
  EXPECT_EQ(spec->added_tokens.size(), 3u);
}

TEST(TokenizerJson, ReadsGptNeoX) {
  const std::string path = TestFile("tokenizers/gpt-neox-20b/tokenizer.json");
  OUTRIDER_SKIP_WITHOUT(path);
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromJson(ReadFile(path), path);
  ASSERT_EQ(Outcome(spec), "OK");
  EXPECT_EQ(spec->tokens.size(), 50277u);
  EXPECT_EQ(spec->merges.size(), 50009u);
  EXPECT_EQ(spec->pre_tokenizer, PreTokenizer::kGpt2);
  EXPECT_TRUE(spec->nfc);
  EXPECT_EQ(spec->tokens[50276].text, "  ");
  EXPECT_EQ(spec->tokens[50276].kind, TokenKind::kUserDefined);
}

TEST(Base64, KnowsWhatRfc4648Says) {
  EXPECT_EQ(DecodeBase64(""), "");
  EXPECT_EQ(DecodeBase64("Zg=="), "f");
  EXPECT_EQ(DecodeBase64("Zm8="), "fo");
  EXPECT_EQ(DecodeBase64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(DecodeBase64("+/+/"), "\xFB\xFF\xBF");
  for (const char* bad : {"Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm 8", "Zm8\n"}) {
    EXPECT_FALSE(DecodeBase64(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace outrider
