// Every id as the reference has it: Hugging Face's tokenizers over some 2,800 strings
// (tests/golden/tokenizer_ids.py), and the vectors llama.cpp tests itself with.
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/text/families.h"
#include "tests/text/golden_strings.h"

namespace outrider {
namespace {

std::vector<std::vector<TokenId>> GoldenIds(const std::string& family) {
  std::vector<std::vector<TokenId>> lists;
  for (Varints file(ReadFile(TestFile("tokenizers/" + family + ".ids"))); !file.done();) {
    std::vector<TokenId>& ids = lists.emplace_back(file.Next());
    for (TokenId& id : ids) id = static_cast<TokenId>(file.Next());
  }
  return lists;
}

// Empty when they are equal; otherwise where they part.
std::string Difference(const Tokenizer& tokenizer, const std::vector<TokenId>& ours,
                       const std::vector<TokenId>& golden) {
  if (ours == golden) return "";
  size_t at = 0;
  while (at < ours.size() && at < golden.size() && ours[at] == golden[at]) ++at;
  const auto token = [&](const std::vector<TokenId>& ids) {
    std::ostringstream out;
    if (at == ids.size()) return std::string("the end");
    out << ids[at] << " \"" << tokenizer.TokenBytes(ids[at]) << "\"";
    return out.str();
  };
  std::ostringstream out;
  out << "token " << at << " is " << token(ours) << ", not " << token(golden);
  return out.str();
}

class Golden : public testing::TestWithParam<Family> {};

TEST_P(Golden, EveryStringHasTheReferencesIds) {
  OUTRIDER_SKIP_WITHOUT(GetParam().path);
  const auto tokenizer = Load(GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> strings = GoldenStrings();
  const std::vector<std::vector<TokenId>> golden = GoldenIds(GetParam().name);
  ASSERT_GE(strings.size(), 2000u);
  ASSERT_EQ(strings.size(), golden.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::vector<TokenId> ours = (*tokenizer)->Encode(strings[i], {.add_special = false});
    EXPECT_EQ(Difference(**tokenizer, ours, golden[i]), "") << "string " << i << ": " << strings[i];
  }
}

TEST_P(Golden, StreamedTextIsTheDecodedText) {
  OUTRIDER_SKIP_WITHOUT(GetParam().path);
  const auto tokenizer = Load(GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const std::vector<TokenId>& ids : GoldenIds(GetParam().name)) {
    Detokenizer detokenizer(**tokenizer);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.Add(id);
    streamed += detokenizer.Finish();
    ASSERT_EQ(streamed, (*tokenizer)->Decode(ids));
  }
}

class SyntheticGolden : public testing::TestWithParam<Family> {};

TEST_P(SyntheticGolden, EveryStringHasTheReferencesIds) {
  const auto tokenizer = Load(GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> strings = CutStrings();
  const std::vector<std::vector<TokenId>> golden = GoldenIds("synthetic/" + GetParam().name);
  ASSERT_EQ(strings.size(), golden.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::vector<TokenId> ours =
        (*tokenizer)
            ->Encode(strings[i], {.add_special = false, .parse_special = GetParam().parse_special});
    EXPECT_EQ(Difference(**tokenizer, ours, golden[i]), "") << "string " << i << ": " << strings[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SyntheticGolden, testing::ValuesIn(SyntheticFamilies()),
                         [](const auto& suite) {
                           const std::filesystem::path path = suite.param.path;
                           return path.stem().string() + "_" + path.extension().string().substr(1);
                         });

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values(Gpt2(), Llama2(), Llama3(), Qwen2(), GptNeox(), T5()),
                         [](const auto& suite) { return suite.param.name; });

struct Vectors {
  Family family;
  std::string inputs;  // a path to which .inp and .out are added
};

std::string VectorsOf(const std::string& name) {
  return "tokenizers/llama.cpp/ggml-vocab-" + name + ".gguf";
}

void PrintTo(const Vectors& vectors, std::ostream* out) {
  *out << vectors.inputs;
}

std::vector<std::string> SplitAt(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

class LlamaCpp : public testing::TestWithParam<Vectors> {};

TEST_P(LlamaCpp, EveryStringHasItsIds) {
  const std::string path = GetParam().inputs;
  OUTRIDER_SKIP_WITHOUT(path + ".inp");
  OUTRIDER_SKIP_WITHOUT(GetParam().family.path);
  const auto tokenizer = Load(GetParam().family);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> strings =
      SplitAt(ReadFile(path + ".inp"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = SplitAt(ReadFile(path + ".out"), "\n");
  ASSERT_GE(strings.size(), 40u);
  ASSERT_GE(lines.size(), strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    std::istringstream numbers(lines[i]);
    const std::vector<TokenId> golden((std::istream_iterator<TokenId>(numbers)), {});
    const std::vector<TokenId> ours = (*tokenizer)->Encode(strings[i], {.add_special = false});
    EXPECT_EQ(Difference(**tokenizer, ours, golden), "") << "string " << i << ": " << strings[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, LlamaCpp,
                         testing::Values(Vectors{Gpt2(), TestFile(VectorsOf("gpt-2"))},
                                         Vectors{Qwen2(), TestFile(VectorsOf("qwen2"))},
                                         Vectors{Gpt2Gguf(), TestFile(VectorsOf("gpt-2"))},
                                         Vectors{Llama2Gguf(),
                                                 ExternalFile(VectorsOf("llama-spm"))},
                                         Vectors{Llama3(), ExternalFile(VectorsOf("llama-bpe"))}),
                         [](const auto& suite) { return suite.param.family.name; });

}  // namespace
}  // namespace outrider
