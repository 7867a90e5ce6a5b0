// Which of the hints that wait for the link goes down first: where it matters, and where it cannot.
#include <cmath>
#include <memory>

#include "bench/simulator/studies/figures.h"
#include "bench/simulator/studies/lossless.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

// Of a token, with four exits that are the more often right the deeper they are.
double TokenMs(HintOrder order, double bytes_per_second) {
  const std::unique_ptr<World> world = *World::Create(
      {.vocabulary_size = 1000, .exits = "0.5:0.4,0.625:0.5,0.75:0.65,0.875:0.8", .seed = 1});
  Scenario scenario;
  scenario.link.delay = Milliseconds(10);
  scenario.link.bytes_per_second = bytes_per_second;
  scenario.pass_time = *TimeProfile::Parse("gpu:200");
  scenario.draft_time = *TimeProfile::Parse("draft:10");
  scenario.hint_order = order;
  scenario.max_tokens = 500;
  Simulation simulation(*world, scenario);
  EXPECT_TRUE(simulation.Run());
  EXPECT_TRUE(CheckTexts(simulation).ok()) << CheckTexts(simulation);
  return FiguresOf(simulation).token_ms;
}

// Exits of a pass speak one after the other, and each hint has gone before the next one comes.
TEST(HintOrders, AreAllTheSameWhereNoHintWaits) {
  const double ms = TokenMs(HintOrder::kProbability, INFINITY);
  EXPECT_EQ(TokenMs(HintOrder::kArrival, INFINITY), ms);
  EXPECT_EQ(TokenMs(HintOrder::kRandom, INFINITY), ms);
}

TEST(HintOrders, DifferWhereTheLinkIsSlowerThanExitsSpeak) {
  constexpr double kSlow = 500;
  const double by_probability = TokenMs(HintOrder::kProbability, kSlow);
  const double by_arrival = TokenMs(HintOrder::kArrival, kSlow);
  EXPECT_NE(by_probability, by_arrival);
  EXPECT_NE(by_probability, TokenMs(HintOrder::kRandom, kSlow));
}

}  // namespace
}  // namespace outrider
