#include "adapters/generation/prompts.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;

const std::vector<std::vector<TokenId>> kDocuments = {{10, 11, 12}, {}, {20}, {30, 31, 32, 33}};

TEST(CutPrompts, ArePiecesOfOneDocumentEach) {
  for (const auto& prompt : CutPrompts(kDocuments, {.count = 100, .length = 2, .seed = 3})) {
    ASSERT_GE(prompt.size(), 1u);
    ASSERT_LE(prompt.size(), 2u);
    if (prompt.size() == 2) {
      EXPECT_EQ(prompt[1], prompt[0] + 1);
    } else {
      EXPECT_TRUE(prompt[0] == 12 || prompt[0] == 20 || prompt[0] == 33) << prompt[0];
    }
  }
}

TEST(CutPrompts, BeginAnywhereAlike) {
  std::map<TokenId, int> begins;
  for (const auto& prompt : CutPrompts(kDocuments, {.count = 8000, .length = 1, .seed = 4})) {
    ++begins[prompt[0]];
  }
  EXPECT_EQ(begins.size(), 8);
  // 1000 each; a deviation of 30.
  for (const auto& [token, count] : begins) EXPECT_NEAR(count, 1000, 150) << token;
}

TEST(CutPrompts, HaveTheBeginTokenInFront) {
  const auto prompts = CutPrompts(kDocuments, {.count = 5, .length = 2, .begin = 7, .seed = 5});
  for (const auto& prompt : prompts) EXPECT_EQ(prompt[0], 7);
}

TEST(CutPrompts, AreOfTheSeed) {
  const auto of = [](uint64_t seed) {
    return CutPrompts(kDocuments, {.count = 20, .length = 3, .seed = seed});
  };
  EXPECT_EQ(of(1), of(1));
  EXPECT_NE(of(1), of(2));
}

TEST(CutPrompts, AreNoneWithoutText) {
  const std::vector<std::vector<TokenId>> empty = {{}, {}};
  EXPECT_THAT(CutPrompts(empty, {.count = 3}), IsEmpty());
}

}  // namespace
}  // namespace outrider
