#include "bench/simulator/studies/contenders.h"

#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

// Right at the first rank, at the second, and nowhere.
constexpr std::string_view kRecording =
    "outrider-trace 1\n"
    "vocabulary 100\n"
    "prompt 1 2\n"
    "exits 0.5\n"
    "place 30 draft 30:0.8 31:0.1 exits 30:0.5\n"
    "place 40 draft 41:0.6 40:0.2 exits 40:0.25\n"
    "place 50 draft 51:0.6 exits 9:0.75\n";

// 4 + 4 chains, the target alone, and 7 trees of 7 sizes.
TEST(Contenders, FixedWaysAreAllDifferentAndNoneOfThemChooses) {
  std::set<std::string> names;
  for (const Contender& way : FixedWaysOf({})) {
    names.insert(way.name);
    EXPECT_NE(way.flags.policy, kAuto) << way.name;
    EXPECT_FALSE(way.flags.sizes_passes) << way.name;
    EXPECT_TRUE(way.flags.ToScenario().ok()) << way.name;
  }
  EXPECT_EQ(names.size(), 58u);
}

TEST(Contenders, AnIndependentDraftIsAsOftenRightAtEveryRank) {
  ScenarioFlags flags;
  flags.trace = "recorded.trace";
  const ScenarioFlags independent = Independent(flags, *Trace::Parse(kRecording, "test"));
  EXPECT_EQ(independent.trace, "");
  EXPECT_EQ(independent.exits, "none");
  EXPECT_EQ(independent.draft, "0.333333333333,0.333333333333");
}

// Seven places: their sevenths, rounded, must not make more than one.
TEST(Contenders, AnIndependentDraftThatIsAlwaysRightSomewhereCanBeParsed) {
  std::string recording = "outrider-trace 1\nvocabulary 100\nprompt 1\n";
  for (const char* first : {"3", "3", "3", "3", "3", "4", "5"}) {
    recording += Concat("place ", first, " draft 3:0.5 4:0.2 5:0.1\n");
  }
  const ScenarioFlags independent = Independent({}, *Trace::Parse(recording, "test"));
  EXPECT_TRUE(independent.ToScenario().ok()) << independent.draft;
}

}  // namespace
}  // namespace outrider
