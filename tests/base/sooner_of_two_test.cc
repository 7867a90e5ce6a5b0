// The sooner of two ways is taken, whichever it is, and found out again when it changes.
#include "common/base/sooner_of_two.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"

namespace outrider {
namespace {

// How often each is taken of `count` times, where they take so long.
std::array<uint32_t, 2> Take(SoonerOfTwo& choice, uint32_t count, double first, double second) {
  std::array<uint32_t, 2> taken = {};
  for (uint32_t i = 0; i < count; ++i) {
    const size_t way = choice.Next();
    ++taken[way];
    choice.Took(way, way == 0 ? first : second);
  }
  return taken;
}

TEST(SoonerOfTwo, TriesBothAndKeepsToTheSooner) {
  for (const size_t sooner : {size_t{0}, size_t{1}}) {
    SoonerOfTwo choice;
    const std::array<double, 2> seconds = {sooner == 0 ? 0.9 : 1.1, 1.0};
    const auto trial = Take(choice, 2 * SoonerOfTwo::kTrials, seconds[0], seconds[1]);
    EXPECT_EQ(trial[0], trial[1]);
    EXPECT_EQ(choice.Sooner(), sooner);
    const auto taken = Take(choice, 10 * SoonerOfTwo::kRetryEvery, seconds[0], seconds[1]);
    EXPECT_EQ(taken[1 - sooner], 10u) << "the other is tried again now and then";
  }
}

TEST(SoonerOfTwo, OneWildTimeMovesNothingAndALastingChangeDoes) {
  SoonerOfTwo choice;
  Take(choice, 2 * SoonerOfTwo::kTrials, 1, 2);
  choice.Took(0, 1000);
  EXPECT_EQ(choice.Sooner(), 0u);
  // The sooner one becomes slow: that is seen as it is taken.
  Take(choice, SoonerOfTwo::kTrials, 3, 2);
  EXPECT_EQ(choice.Sooner(), 1u);
  // And then quick again, which only trying it shows.
  Take(choice, SoonerOfTwo::kTrials * SoonerOfTwo::kRetryEvery, 1, 2);
  EXPECT_EQ(choice.Sooner(), 0u);
}

}  // namespace
}  // namespace outrider
