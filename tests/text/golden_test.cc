// Every id as the reference has it: Hugging Face's tokenizers over some 2,800 strings
// (tests/golden/tokenizer_ids.py), and the vectors llama.cpp tests itself with.
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/text/families.h"

namespace outrider {
namespace {

// Numbers in LEB128, and bytes, from a golden file.
class Varints {
 public:
  explicit Varints(std::string bytes) : bytes_(std::move(bytes)) {}

  bool done() const { return at_ == bytes_.size(); }

  uint64_t Next() {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  std::string NextBytes(size_t count) {
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

std::vector<std::string> GoldenStrings() {
  std::vector<std::string> strings;
  for (Varints file(ReadFile(TestFile("tokenizers/strings.bin"))); !file.done();) {
    strings.push_back(file.NextBytes(file.Next()));
  }
  return strings;
}

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

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values(Gpt2(), Llama2(), Llama3(), Qwen2(), GptNeox(), T5()),
                         [](const auto& suite) { return suite.param.name; });

struct Vectors {
  Family family;
  std::string inputs;  // beside it the same name with .out for .inp
};

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
  const std::string path = ExternalFile("tokenizers/llama.cpp/" + GetParam().inputs);
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
                         testing::Values(Vectors{Gpt2Gguf(), "ggml-vocab-gpt-2.gguf"},
                                         Vectors{Llama2Gguf(), "ggml-vocab-llama-spm.gguf"},
                                         Vectors{Llama3(), "ggml-vocab-llama-bpe.gguf"},
                                         Vectors{Qwen2(), "ggml-vocab-qwen2.gguf"}),
                         [](const auto& suite) { return suite.param.family.name; });

}  // namespace
}  // namespace outrider
