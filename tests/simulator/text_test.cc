#include "bench/simulator/sources/text.h"

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "bench/simulator/sources/vocabulary.h"
#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

Chooser MakeChooser(const SamplingOptions& options, int32_t vocabulary_size) {
  absl::StatusOr<Chooser> chooser = Chooser::Create(options, vocabulary_size);
  EXPECT_TRUE(chooser.ok()) << chooser.status();
  return *chooser;
}

const Tokenizer& Vocabulary() {
  static const std::unique_ptr<Tokenizer> tokenizer = MakeVocabulary(96);
  return *tokenizer;
}

// What is written after `prompt` until `max_tokens` or an end token.
std::vector<TokenId> Written(const Text& text, const Chooser& chooser,
                             const std::vector<TokenId>& prompt, uint32_t max_tokens) {
  const absl::StatusOr<StopConditions> stops =
      StopConditions::Create({.max_tokens = max_tokens}, Vocabulary());
  EXPECT_TRUE(stops.ok()) << stops.status();
  TokenHistory history({.vocabulary_size = text.vocabulary_size(),
                        .capacity = prompt.size() + max_tokens,
                        .counts_tokens = true});
  EXPECT_TRUE(history.Append(prompt).ok());
  WriteAlone(text, chooser, *stops, history);
  return {history.reply().begin(), history.reply().end()};
}

// The law all of the simulator's proofs stand on: change any one token, and what follows differs.
TEST(Text, HangsOnEveryTokenBefore) {
  const HashedText text({.seed = 1});
  const Chooser chooser = MakeChooser({}, text.vocabulary_size());
  std::vector<TokenId> prompt = {5, 6, 7, 8, 9, 10};
  const std::vector<TokenId> original = Written(text, chooser, prompt, 8);
  EXPECT_EQ(Written(text, chooser, prompt, 8), original);
  for (TokenId& token : prompt) {
    ++token;
    EXPECT_NE(Written(text, chooser, prompt, 8), original);
    --token;
  }
}

TEST(Text, EndsAsOftenAsAskedAndNeverByAccident) {
  const HashedText endless({.seed = 1, .vocabulary_size = 4});
  const Chooser chooser = MakeChooser({}, 4);
  EXPECT_EQ(Written(endless, chooser, {1}, 5000).size(), 5000u);

  const HashedText text({.seed = 1, .end_rate = 0.02});
  double tokens = 0;
  for (TokenId i = 0; i < 400; ++i) {
    tokens += static_cast<double>(Written(text, chooser, {i}, 100000).size());
  }
  EXPECT_NEAR(tokens / 400, 50, 4 * 50 / std::sqrt(400));  // geometric: as wide as its mean
}

TEST(Text, SampledTextIsChosenByTheRealChooser) {
  const SampledText text({.seed = 3});
  const std::vector<TokenId> prompt = {1, 2, 3};
  std::set<std::vector<TokenId>> texts;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Chooser chooser =
        MakeChooser({.temperature = 1, .repetition_penalty = 1.2, .seed = seed}, 96);
    const std::vector<TokenId> written = Written(text, chooser, prompt, 50);
    EXPECT_EQ(Written(text, chooser, prompt, 50), written);
    texts.insert(written);
  }
  EXPECT_EQ(texts.size(), 5u);
  // Greedy text knows no seed.
  EXPECT_EQ(Written(text, MakeChooser({.seed = 1}, 96), prompt, 50),
            Written(text, MakeChooser({.seed = 2}, 96), prompt, 50));
}

}  // namespace
}  // namespace outrider
