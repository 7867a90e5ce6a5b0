#include "adapters/exits/exit_layers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ExitLayers, StandBetweenHalfAndNineTenthsOfTheDepth) {
  EXPECT_THAT(OrDie(DefaultExitLayers(8)), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(OrDie(DefaultExitLayers(32)), ElementsAre(15, 18, 21, 24, 27));
  for (uint32_t layer_count = 10; layer_count < 200; ++layer_count) {
    const std::vector<uint32_t> layers = OrDie(DefaultExitLayers(layer_count));
    EXPECT_TRUE(CheckExitLayers(layers, layer_count).ok()) << layer_count;
    EXPECT_EQ(layers.size(), std::min<size_t>(5, layer_count * 9 / 10 - (layer_count + 1) / 2 + 1));
    EXPECT_GE(layers.front() + 1, layer_count * 0.5) << layer_count;
    EXPECT_LE(layers.back() + 1, layer_count * 0.9) << layer_count;
  }
}

TEST(ExitLayers, FindAPlaceInTheSmallestModels) {
  EXPECT_THAT(OrDie(DefaultExitLayers(2)), ElementsAre(0));
  EXPECT_THAT(OrDie(DefaultExitLayers(3)), ElementsAre(1));
  EXPECT_THAT(OrDie(EveryExitLayer(4)), ElementsAre(0, 1, 2));
  EXPECT_THAT(DefaultExitLayers(1).status().message(), HasSubstr("no place for an exit"));
  EXPECT_THAT(EveryExitLayer(1).status().message(), HasSubstr("no place for an exit"));
}

TEST(ExitLayers, RiseAndEndBeforeTheLast) {
  EXPECT_TRUE(CheckExitLayers(std::vector<uint32_t>{0, 3, 6}, 8).ok());
  EXPECT_THAT(CheckExitLayers(std::vector<uint32_t>{3, 7}, 8).message(),
              HasSubstr("after layer 7 would come too late"));
  EXPECT_THAT(CheckExitLayers(std::vector<uint32_t>{3, 3}, 8).message(), HasSubstr("3 after 3"));
}

}  // namespace
}  // namespace outrider
