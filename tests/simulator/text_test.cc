#include "bench/simulator/text.h"

#include <cmath>
#include <set>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

Chooser MakeChooser(const SamplingOptions& options, int32_t vocabulary_size) {
  absl::StatusOr<Chooser> chooser = Chooser::Create(options, vocabulary_size);
  EXPECT_TRUE(chooser.ok()) << chooser.status();
  return *chooser;
}

// The law all of the simulator's proofs stand on: change any one token, and what follows differs.
TEST(Text, HangsOnEveryTokenBefore) {
  const HashedText text({.seed = 1});
  const Chooser chooser = MakeChooser({}, text.vocabulary_size());
  std::vector<TokenId> prompt = {5, 6, 7, 8, 9, 10};
  const std::vector<TokenId> original = WriteAlone(text, chooser, prompt, 8, std::nullopt);
  EXPECT_EQ(WriteAlone(text, chooser, prompt, 8, std::nullopt), original);
  for (TokenId& token : prompt) {
    ++token;
    EXPECT_NE(WriteAlone(text, chooser, prompt, 8, std::nullopt), original);
    --token;
  }
}

TEST(Text, EndsAsOftenAsAskedAndNeverByAccident) {
  const HashedText endless({.seed = 1, .vocabulary_size = 4});
  const Chooser chooser = MakeChooser({}, 4);
  EXPECT_EQ(WriteAlone(endless, chooser, std::vector<TokenId>{1}, 5000, 2).size(), 5000u);

  const HashedText text({.seed = 1, .end_rate = 0.02});
  double tokens = 0;
  for (TokenId i = 0; i < 400; ++i) {
    tokens +=
        static_cast<double>(WriteAlone(text, chooser, std::vector<TokenId>{i}, 100000, 2).size());
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
    const std::vector<TokenId> written = WriteAlone(text, chooser, prompt, 50, std::nullopt);
    EXPECT_EQ(WriteAlone(text, chooser, prompt, 50, std::nullopt), written);
    texts.insert(written);
  }
  EXPECT_EQ(texts.size(), 5u);
  // Greedy text knows no seed.
  EXPECT_EQ(WriteAlone(text, MakeChooser({.seed = 1}, 96), prompt, 50, std::nullopt),
            WriteAlone(text, MakeChooser({.seed = 2}, 96), prompt, 50, std::nullopt));
}

}  // namespace
}  // namespace outrider
