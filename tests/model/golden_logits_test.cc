// Logits and greedy text against transformers. The expected values are made by
// tests/golden/logits.py, which says what is in the files.
#include "tests/model/golden_logits.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

class GoldenLogits : public testing::TestWithParam<GoldenModel> {};

TEST_P(GoldenLogits, AreThoseOfTransformers) {
  const Golden golden = ReadGolden(GetParam().name);
  Engine engine(TestFile(GetParam().directory));
  const auto sequence = engine.NewSequence();
  const std::vector<std::vector<float>> logits = engine.Read(*sequence, golden.tokens);
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    SCOPED_TRACE(golden.positions[i]);
    ASSERT_EQ(logits[golden.positions[i]].size(), golden.exact[i].size());
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.halves[i]), 1e-4);
    // Eleven significant bits of keys and values are all that sets us apart from the exact ones.
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.exact[i]), 2e-3);
  }
}

TEST_P(GoldenLogits, GiveTheSameGreedyText) {
  const Golden golden = ReadGolden(GetParam().name);
  Engine engine(TestFile(GetParam().directory));
  const auto sequence = engine.NewSequence();
  std::vector<TokenId> text = {golden.greedy[0]};
  while (text.size() < golden.greedy.size()) {
    const std::vector<float> logits = engine.Read(*sequence, {&text.back(), 1})[0];
    text.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(text, golden.greedy);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogits, testing::ValuesIn(kGoldenModels),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace outrider
