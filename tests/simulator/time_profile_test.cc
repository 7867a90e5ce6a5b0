#include "bench/simulator/world/time_profile.h"

#include <string_view>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

TimeProfile Profile(std::string_view text) {
  absl::StatusOr<TimeProfile> profile = TimeProfile::Parse(text);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *profile;
}

TEST(TimeProfile, OneTimeHoldsForEveryCount) {
  const TimeProfile profile = Profile("20");
  EXPECT_EQ(profile.At(1), Milliseconds(20));
  EXPECT_EQ(profile.At(1000), Milliseconds(20));
}

TEST(TimeProfile, IsStraightBetweenPointsFlatBeforeAndStraightBehind) {
  const TimeProfile profile = Profile("2:10,4:20,8:30");
  EXPECT_EQ(profile.At(1), Milliseconds(10));
  EXPECT_EQ(profile.At(3), Milliseconds(15));
  EXPECT_EQ(profile.At(4), Milliseconds(20));
  EXPECT_EQ(profile.At(8), Milliseconds(30));
  EXPECT_EQ(profile.At(12), Milliseconds(40));
}

TEST(TimeProfile, AShapeHasAName) {
  EXPECT_EQ(Profile("cpu").At(1), Milliseconds(22));
  EXPECT_EQ(Profile("cpu").At(16), Milliseconds(42));
  EXPECT_EQ(Profile("gpu").At(64), Milliseconds(28));
  EXPECT_EQ(TimeProfile::ShapeIn("gpu:7"), "gpu");
  EXPECT_EQ(TimeProfile::ShapeIn("20"), "");
}

TEST(TimeProfile, AShapeIsScaledToTheTimeOfOne) {
  EXPECT_EQ(Profile("cpu:11").At(1), Milliseconds(11));
  EXPECT_EQ(Profile("cpu:11").At(32), Milliseconds(35));
  EXPECT_EQ(Profile("draft:1.2").At(8), Milliseconds(1.8));
}

TEST(TimeProfile, ATimeIsNeverNegative) {
  EXPECT_EQ(Profile("1:10,2:1").At(100), Duration(0));
}

TEST(TimeProfile, RefusesWhatIsNoProfile) {
  for (const std::string_view text : {"", "x", "1:2:3", "-1", "1:5,1:6", "2:5,1:6",
                                      "cpu:", "cpu:5:6", "tpu:5", "nan", "1:", ",", "1e300"}) {
    EXPECT_FALSE(TimeProfile::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace outrider
