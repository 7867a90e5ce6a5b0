// What rows cost that bring experts from flash: by how many they use together in recorded routes of trained
// models, and as far as a pass waits for them.
#include "common/speculation/costs/expert_price.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "common/speculation/control/pass_size.h"
#include "common/speculation/costs/cost_model.h"
#include "gtest/gtest.h"
#include "tests/speculation/hand_draft.h"

namespace outrider {
namespace {

constexpr double kLayers = 48;
constexpr ExpertPrice::Experts kQwen = {.count = 128 * 48, .used_count = 6 * 48};
constexpr ExpertPrice::Experts kMixtral = {.count = 8 * 32, .used_count = 2 * 32};

// Experts that so many rows used together, for each that one row uses: routes of BigMoeOnEdge, 2026-07-15.
struct Recorded {
  uint32_t rows;
  double qwen;     // Qwen3-30B, 6 of 128
  double gpt_oss;  // gpt-oss-120b, 2 of 128
};
constexpr Recorded kRecorded[] = {
    {2, 1.62, 1.82}, {4, 2.59, 3.08}, {8, 3.93, 4.99}, {16, 5.58, 7.87}};

// The same between those, for one layer of Qwen3's: within 3 % of what was recorded.
double QwenExperts(double rows) {
  return 6 * std::pow(rows, 0.72 - 0.025 * std::log2(rows));
}

uint32_t UsedOf(double of_one_row, double times) {
  return static_cast<uint32_t>(std::lround(of_one_row * times));
}

TEST(ExpertPrice, RowsUseTogetherAboutWhatWasRecorded) {
  for (const Recorded& recorded : kRecorded) {
    const double times = ExpertPrice::Together(kQwen, recorded.rows) / kQwen.used_count;
    EXPECT_NEAR(times / recorded.qwen, 1, 0.16) << recorded.rows;
  }
  EXPECT_DOUBLE_EQ(ExpertPrice::Together(kQwen, 1), kQwen.used_count);
}

TEST(ExpertPrice, RowsUseNoMoreThanThereAre) {
  for (uint32_t rows = 2; rows <= 64; ++rows) {
    const double together = ExpertPrice::Together(kMixtral, rows);
    EXPECT_GE(together, ExpertPrice::Together(kMixtral, rows - 1)) << rows;
    EXPECT_LE(together, kMixtral.count) << rows;
  }
  EXPECT_EQ(ExpertPrice::Together({}, 16), 0);
}

TEST(ExpertPrice, LearnsHowRowsAgree) {
  const ExpertPrice::Experts gpt_oss = {.count = 128 * 36, .used_count = 2 * 36};
  for (const Recorded& recorded : kRecorded) {
    ExpertPrice price(gpt_oss);
    for (int i = 0; i < 3; ++i) {
      const uint32_t used = UsedOf(gpt_oss.used_count, recorded.gpt_oss);
      price.Add(recorded.rows, used, 2.0 * used);
    }
    EXPECT_NEAR(price.WaitMs(recorded.rows).value(), 2 * 72 * recorded.gpt_oss, 3) << recorded.rows;
  }
}

// Every pass of four rows waits 2 ms for each of the 2.59 times 288 experts that it uses, be they in memory or not.
TEST(ExpertPrice, OfARowIsTheWaitForThoseThatItBrings) {
  ExpertPrice price(kQwen);
  EXPECT_EQ(price.RowMs(4), std::nullopt);
  price.Add(4, UsedOf(288, 2.59), 2 * 288 * 2.59);
  const double of_one_row = 2 * 288;
  EXPECT_NEAR(price.WaitMs(1).value(), of_one_row, 1);
  // Recorded: from 1.62 at two rows to 2.59 at four, and 3.93 at eight.
  EXPECT_NEAR(price.RowMs(2).value(), 0.61 * of_one_row, 0.05 * of_one_row);
  EXPECT_NEAR(price.RowMs(4).value(), (2.59 - 1.62) / 2 * of_one_row, 0.05 * of_one_row);
  EXPECT_NEAR(price.RowMs(8).value(), (3.93 - 2.59) / 4 * of_one_row, 0.08 * of_one_row);
  EXPECT_EQ(price.RowMs(1), price.RowMs(2));
}

// One row says what experts are waited for; how rows agree is supposed until several have said.
TEST(ExpertPrice, IsKnownFromThePassOfOneRow) {
  ExpertPrice price(kQwen);
  price.Add(1, kQwen.used_count, 900);
  EXPECT_NEAR(price.RowMs(2).value(), 0.62 * 900, 0.05 * 900);
}

TEST(ExpertPrice, IsNothingWhereAllAreInMemory) {
  ExpertPrice price(kQwen);
  for (int i = 0; i < 9; ++i) price.Add(4, UsedOf(288, 2.59), 0);
  EXPECT_DOUBLE_EQ(price.RowMs(4).value(), 0);
}

TEST(CostModel, ForeseesRowsByTheirExpertsUntilPassesHaveTold) {
  CostModel costs({.experts = kQwen});
  EXPECT_EQ(costs.row_ms(), std::nullopt);
  const auto pass = [&](uint32_t rows) {
    const double waited = 900 * QwenExperts(rows) / 6;
    costs.MeasuredPass({rows - 1, 1}, 100 + 4 * rows + waited);
    costs.MeasuredExperts(rows, UsedOf(kLayers, QwenExperts(rows)), waited);
  };
  pass(4);
  const double last = 4 + 900 * (QwenExperts(4) - QwenExperts(3)) / 6;
  EXPECT_FALSE(costs.row_ms_is_fresh());
  EXPECT_NEAR(costs.row_ms().value(), last, 0.1 * last);
  EXPECT_LT(costs.ForeseenRowMs(16).value(), 0.7 * last);  // most of what it wants others want, too
  for (int i = 0; i < 8; ++i) {
    pass(2);
    pass(4);
  }
  const double told = 4 + 900 * (QwenExperts(4) - QwenExperts(2)) / 6 / 2;
  EXPECT_TRUE(costs.row_ms_is_fresh());
  EXPECT_NEAR(costs.row_ms().value(), told, 1e-6);
  for (int i = 0; i < 40; ++i) pass(4);  // all alike: they tell no more
  EXPECT_FALSE(costs.row_ms_is_fresh());
  EXPECT_NEAR(costs.row_ms().value(), last, 0.1 * last);
}

TEST(CostModel, ForeseesNothingOfATargetWhoseExpertsAreInMemory) {
  CostModel costs;
  costs.MeasuredPass({3, 1}, 100);
  costs.MeasuredExperts(4, 700, 50);
  EXPECT_EQ(costs.ForeseenRowMs(4), std::nullopt);
  EXPECT_EQ(costs.row_ms(), std::nullopt);
}

// A session whose draft is a chain, each token as likely right as the one before it, over a target with
// Qwen3's experts on flash, of which hardly any is in memory: they take 900 ms of a pass of one row, all else 100.
class ExpertSession {
 public:
  ExpertSession(double right, uint32_t begin)
      : right_(right), size_({.before = Findings{.pass_nodes = begin}}) {
    draft_.costs = CostModel({.pass_ms = 1000, .experts = kQwen});
  }

  // The time of a token, of the best there is for passes of one size.
  double Run(int verdicts) {
    double all_tokens = 0, all_ms = 0;
    for (int i = 0; i < verdicts; ++i) {
      const uint32_t nodes = size_.nodes();
      draft_.costs.MeasuredPass({nodes, 1}, PassMs(nodes));
      const double experts = QwenExperts(1 + nodes);
      draft_.costs.MeasuredExperts(1 + nodes, UsedOf(kLayers, experts), 900 * experts / 6);
      owed_ += TokensOf(nodes);
      const auto committed = static_cast<uint32_t>(owed_);
      owed_ -= committed;
      draft_.costs.MeasuredVerdict(committed, PassMs(nodes));
      Draft(nodes);
      size_.Decided(draft_.View());
      all_tokens += TokensOf(nodes);
      all_ms += PassMs(nodes);
    }
    double best = PassMs(0);
    for (uint32_t nodes = 1; nodes <= 63; ++nodes) {
      best = std::min(best, PassMs(nodes) / TokensOf(nodes));
    }
    return all_ms / all_tokens / best;
  }

 private:
  static double PassMs(uint32_t nodes) {
    const double rows = 1.0 + nodes;
    return 100 + 4 * rows + 900 * QwenExperts(rows) / 6;
  }
  double TokensOf(uint32_t nodes) const {
    double tokens = 1;
    for (uint32_t k = 1; k <= nodes; ++k) tokens += std::pow(right_, k);
    return tokens;
  }
  void Draft(uint32_t pass_nodes) {
    draft_.nodes.resize(1);
    for (uint32_t k = 1; k <= 63; ++k) {
      DraftNode& node = draft_.nodes[draft_.Node(k - 1, 5, right_)];
      node.in_pass = k <= pass_nodes;
      node.sent = node.at_target = true;
    }
  }

  const double right_;
  PassSize size_;
  HandDraft draft_;
  double owed_ = 0;
};

// Four rows read 2.6 times what one does, and sixteen 5.6 times: three or four tokens of a pass never pay for those.
TEST(PassSize, IsNearTheBestFromTheFirstPassesOnWhereExpertsComeFromFlash) {
  for (const double right : {0.5, 0.7, 0.8, 0.95}) {
    EXPECT_LE(ExpertSession(right, /*begin=*/2).Run(16), 1.16) << right;
  }
}

// From sixteen rows, which it has been led to by something else, it goes down with every pass. (Told of no experts it
// takes a dozen passes to learn what rows cost: 2.2, 1.9 and 1.5 times the best token's time in the first eight.)
TEST(PassSize, LeavesASizeAtOnceThatReadsTooManyExperts) {
  struct Case {
    double right;
    double most;
  };
  for (const Case& is : {Case{0.5, 1.7}, Case{0.6, 1.5}, Case{0.7, 1.3}}) {
    EXPECT_LE(ExpertSession(is.right, /*begin=*/15).Run(8), is.most) << is.right;
  }
}

}  // namespace
}  // namespace outrider
