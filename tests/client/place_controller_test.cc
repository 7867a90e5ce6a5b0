// Where a session with a server and a target of its own is to be, by what tokens take at both.
#include "client/device/place_controller.h"

#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/policies/resting_policy.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Place = PlaceController::Place;

// Verdicts of two tokens, by what they take at either place.
class PlaceControllerTest : public testing::Test {
 protected:
  explicit PlaceControllerTest()
      : controller_(at_server_, {at_device_, Assumed(400)}, costs_, [this](Place) { ++asked_; }) {}

  static CostModel::Assumed Assumed(double pass_ms) {
    CostModel::Assumed assumed;
    assumed.pass_ms = pass_ms;
    return assumed;
  }

  // The session moves where it is wanted, as soon as it is. Returns the moves.
  int Write(int verdicts, double server_ms, double device_ms) {
    int moves = 0;
    for (int i = 0; i < verdicts; ++i) {
      const double ms = controller_.place() == Place::kServer ? server_ms : device_ms;
      costs_.MeasuredPass({4, 4}, controller_.place() == Place::kServer ? 30 : device_ms);
      costs_.MeasuredVerdict(2, ms);
      const Place wanted = controller_.Choose();
      if (wanted == controller_.place()) continue;
      controller_.Moved(wanted);
      ++moves;
    }
    return moves;
  }

  RestingPolicy policy_;
  FixedController at_server_{policy_};
  FixedController at_device_{policy_};
  CostModel costs_{Assumed(30)};
  int asked_ = 0;
  PlaceController controller_;
};

TEST_F(PlaceControllerTest, StaysWhereTokensComeSooner) {
  EXPECT_EQ(Write(2000, 100, 400), 0);
  EXPECT_EQ(controller_.place(), Place::kServer);
}

TEST_F(PlaceControllerTest, ALinkThatTakesLongerThanFlashIsLeft) {
  EXPECT_EQ(Write(60, 800, 400), 1);
  EXPECT_EQ(controller_.place(), Place::kDevice);
}

TEST_F(PlaceControllerTest, FlashThatIsSlowerThanItPromisedIsLeftAndBelieved) {
  EXPECT_EQ(Write(4000, 800, 2000), 2);
  EXPECT_EQ(controller_.place(), Place::kServer);
}

TEST_F(PlaceControllerTest, AServerThatStaysSlowIsLookedAtMoreAndMoreRarely) {
  const int moves = Write(10000, 800, 400);
  EXPECT_GE(moves, 5);
  EXPECT_LE(moves, 20);
}

TEST_F(PlaceControllerTest, AServerThatHasBecomeFastIsFoundAgain) {
  Write(100, 800, 400);
  ASSERT_EQ(controller_.place(), Place::kDevice);
  Write(400, 50, 400);
  EXPECT_EQ(controller_.place(), Place::kServer);
}

TEST_F(PlaceControllerTest, WhatPassesCostIsKeptApart) {
  Write(20, 100, 400);
  controller_.Moved(Place::kDevice);
  EXPECT_DOUBLE_EQ(costs_.recent_pass_ms(), 400);  // as assumed
  costs_.MeasuredPass({0, 0}, 500);
  controller_.Moved(Place::kServer);
  EXPECT_DOUBLE_EQ(costs_.recent_pass_ms(), 30);
  EXPECT_DOUBLE_EQ(controller_.costs_at(Place::kDevice).recent_pass_ms(), 500);
  EXPECT_EQ(controller_.moves(), 2u);
}

// Where it was driven by a link that has failed, it goes back by itself.
TEST_F(PlaceControllerTest, AsksForNothingWhereItHasNotGoneByChoice) {
  controller_.Moved(Place::kDevice);
  for (int i = 0; i < 200; ++i) {
    costs_.MeasuredVerdict(2, 400);
    EXPECT_EQ(controller_.Choose(), Place::kServer);
  }
  EXPECT_EQ(asked_, 0);
}

}  // namespace
}  // namespace outrider
