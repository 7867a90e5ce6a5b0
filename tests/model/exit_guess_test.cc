// The evidence and its weight, against the formulas of exit_guess.h in plain double precision.
#include "common/model/exits/exit_guess.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(ExitEvidence, IsWhatTheFormulasSay) {
  std::mt19937 random(3);
  const auto uniform = [&] { return static_cast<double>(random() % 100000) / 100000; };
  for (int round = 0; round < 200; ++round) {
    const auto kappa = static_cast<float>(0.05 + 2 * uniform());
    ExitEvidence evidence;
    double doubt = 0;
    double entropy = 0;
    double margin = 64;
    for (uint32_t step = 0; step <= random() % 4; ++step) {
      std::vector<Ranked> ranked(1 + random() % 32);
      float score = 5;
      for (size_t i = 0; i < ranked.size(); ++i) {
        ranked[i] = {static_cast<TokenId>(i), score};
        score -= static_cast<float>(uniform() * (round % 3 == 0 ? 100 : 1));
      }
      double total = 0;
      for (const Ranked& one : ranked)
        total += std::exp((one.score - ranked[0].score) / double{kappa});
      for (const Ranked& one : ranked) {
        const double p = std::exp((one.score - ranked[0].score) / double{kappa}) / total;
        if (p > 0) entropy -= p * std::log(p);
      }
      doubt += std::log(total);
      if (ranked.size() > 1) {
        margin = std::min(margin, (double{ranked[0].score} - ranked[1].score) / kappa);
      }
      evidence.AddChoice(ranked, kappa);
    }
    EXPECT_NEAR(evidence.doubt, doubt, 1e-5 * (1 + doubt));
    EXPECT_NEAR(evidence.entropy, entropy, 1e-5 * (1 + entropy));
    EXPECT_NEAR(evidence.margin, margin, 1e-5 * (1 + margin));
  }
}

TEST(ExitEvidence, AnOnlyCandidateIsCertain) {
  ExitEvidence evidence;
  const Ranked only = {7, -3.0f};
  evidence.AddChoice({&only, 1}, 0.5f);
  EXPECT_EQ(evidence.doubt, 0);
  EXPECT_EQ(evidence.entropy, 0);
  EXPECT_EQ(evidence.margin, ExitEvidence::kMarginMax);
  EXPECT_EQ(UncalibratedProbabilityOf(evidence), 1);
}

TEST(ExitCalibration, IsPiecewiseLinear) {
  const PiecewiseLinear function = {.knots = {1, 2, 4}, .slopes = {-3, -0.5f}};
  for (const auto& [x, y] : {std::pair{0.0f, 0.0f},
                             {1.0f, 0.0f},
                             {1.5f, -1.5f},
                             {2.0f, -3.0f},
                             {3.0f, -3.5f},
                             {4.0f, -4.0f},
                             {9.0f, -4.0f}}) {
    EXPECT_EQ(Evaluate(function, x), y) << x;
  }
  EXPECT_EQ(Evaluate({}, 3), 0);
}

TEST(ExitCalibration, IsALogisticFunctionThatNeverGoesTheWrongWay) {
  const ExitCalibration calibration = {.kappa = 1,
                                       .bias = 0.5f,
                                       .doubt = {.knots = {0, 1, 3}, .slopes = {-2, -0.5f}},
                                       .entropy = {.knots = {0, 2}, .slopes = {-0.25f}},
                                       .margin = {.knots = {0, 1, 2}, .slopes = {1, 0.5f}},
                                       .agrees_with_previous = 0.75f,
                                       .agrees_with_first_draft = 0.25f};
  const ExitEvidence evidence = {
      .doubt = 2, .entropy = 1, .margin = 1.5f, .agrees_with_previous = true};
  const double z = 0.5 - 2 - 0.5 - 0.25 + 1 + 0.25 + 0.75;
  EXPECT_NEAR(ProbabilityOf(evidence, calibration), 1 / (1 + std::exp(-z)), 1e-6);

  std::mt19937 random(4);
  const auto uniform = [&] { return static_cast<float>(random() % 1000) / 200; };
  for (int round = 0; round < 500; ++round) {
    ExitEvidence worse = {.doubt = uniform(), .entropy = uniform(), .margin = uniform()};
    ExitEvidence better = worse;
    better.doubt -= uniform();
    better.entropy -= uniform();
    better.margin += uniform();
    better.agrees_with_previous = random() % 2 == 0;
    better.agrees_with_first_draft = random() % 2 == 0;
    EXPECT_GE(ProbabilityOf(better, calibration), ProbabilityOf(worse, calibration));
  }
}

//        root
//       /    \        nodes 0 and 1; 2 and 3 below 0, 4 below 2
//      0      1
//     / \     |
//    2   3    5
//    |
//    4
TEST(FirstDraft, IsFollowedToItsEndOrNotAtAll) {
  constexpr uint32_t kRoot = DraftedNode::kRoot;
  const std::vector<DraftedNode> nodes = {{10, kRoot}, {11, kRoot}, {12, 0},
                                          {13, 0},     {14, 2},     {15, 1}};
  EXPECT_TRUE(FollowsFirstDraft(nodes, 4));
  for (const uint32_t end : {kRoot, 0u, 1u, 2u, 3u, 5u}) {
    EXPECT_FALSE(FollowsFirstDraft(nodes, end)) << end;
  }
  EXPECT_FALSE(FollowsFirstDraft({}, kRoot));
}

}  // namespace
}  // namespace outrider
