// Every kind of pre-tokenizer cuts our strings where Hugging Face's tokenizers does
// (tests/golden/pre_tokenizers.py), by the name GGUF has for it and by the steps of a
// tokenizer.json.
#include <algorithm>
#include <cctype>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/tokenizer_gguf_names.h"
#include "common/text/pre_tokenizer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/test_files.h"
#include "tests/text/golden_strings.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

struct Rules {
  std::string name;   // as tokenizer.ggml.pre
  bool published;     // a tokenizer.json of a model has these steps
  std::string steps;  // its pre_tokenizer
};

void PrintTo(const Rules& rules, std::ostream* out) {
  *out << rules.name;
}

std::vector<Rules> AllRules() {
  std::vector<Rules> all;
  std::istringstream lines(ReadFile(TestFile("tokenizers/pre_tokenizers.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    all.push_back({json["name"], json["published"], json["pre_tokenizer"].dump()});
  }
  return all;
}

class PreTokenizerGolden : public testing::TestWithParam<Rules> {};

TEST_P(PreTokenizerGolden, CutsWhereTheReferenceDoes) {
  const PreName* known = FindPreName(GetParam().name);
  ASSERT_NE(known, nullptr);
  Varints cuts(ReadFile(TestFile("tokenizers/cuts/" + GetParam().name + ".cuts")));
  for (const std::string& text : CutStrings()) {
    std::string ours, golden;  // the text with a bar at every cut
    ForEachPiece(known->pre_tokenizer, text,
                 [&](std::string_view piece) { ours += std::string(piece) + "|"; });
    const uint64_t pieces = cuts.Next();
    for (size_t i = 0, at = 0; i < pieces; ++i) {
      const uint64_t length = cuts.Next();
      golden += text.substr(at, length) + "|";
      at += length;
    }
    EXPECT_EQ(ours, golden);
  }
  EXPECT_TRUE(cuts.done());
}

TEST_P(PreTokenizerGolden, ATokenizerJsonIsKnownByItsSteps) {
  Json file = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}}}};
  file["pre_tokenizer"] = Json::parse(GetParam().steps);
  const absl::StatusOr<TokenizerSpec> spec = TokenizerFromJson(file.dump(), "t.json");
  if (!GetParam().published) {
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->pre_tokenizer, FindPreName(GetParam().name)->pre_tokenizer);
}

INSTANTIATE_TEST_SUITE_P(Rules, PreTokenizerGolden, testing::ValuesIn(AllRules()),
                         [](const auto& suite) {
                           std::string name = suite.param.name;
                           std::erase_if(name, [](char c) { return !isalnum(c); });
                           return name;
                         });

TEST(PreTokenizerGolden, EveryNameHasRulesThatAreHeldAgainstTheReference) {
  const std::vector<Rules> rules = AllRules();
  for (const PreName& name : PreNames()) {
    const bool held = std::any_of(rules.begin(), rules.end(), [&](const Rules& each) {
      return FindPreName(each.name)->pre_tokenizer == name.pre_tokenizer;
    });
    EXPECT_TRUE(held) << name.name;
  }
}

}  // namespace
}  // namespace outrider
