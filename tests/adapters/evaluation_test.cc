// Figures by hand, of a log that is short enough for it.
#include "adapters/calibration/evaluation.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A pass without drafted nodes whose verdict is 7: what two exits say of it.
void AddPass(GuessLog& log, TokenId first, float first_p, TokenId second, float second_p) {
  uint32_t exit = 0;
  for (const auto& [token, probability] :
       {std::pair(first, first_p), std::pair(second, second_p)}) {
    const std::vector<Ranked> ranked = {{token, 1}};
    const std::vector<std::span<const Ranked>> choices = {ranked};
    ExitGuess guess{};
    guess.exit = exit++;
    guess.outcome = {DraftedNode::kRoot, token};
    guess.probability = probability;
    guess.evidence.largest_softmax = 1 - probability;
    guess.ranked = choices;
    log.Hear(guess);
  }
  log.Close({DraftedNode::kRoot, 7}, std::vector<TokenId>{7});
}

class EvaluationTest : public testing::Test {
 protected:
  EvaluationTest() {
    exits_.target.layer_count = 8;
    exits_.exits = {{.layer = 3, .rank = 1}, {.layer = 5, .rank = 1}};
    AddPass(log_, 7, 0.5f, 7, 0.75f);
    AddPass(log_, 1, 0.25f, 7, 0.25f);
    AddPass(log_, 1, 0.75f, 7, 0.5f);
    AddPass(log_, 1, 0, 1, 0.25f);
    figures_ = Evaluate("greedy", log_, exits_, std::vector<double>{0.01, 0.02});
  }

  GuessLog log_;
  TrainedExits exits_;
  ModeFigures figures_;
};

TEST_F(EvaluationTest, CountsByHand) {
  ASSERT_EQ(figures_.exits.size(), 3u);
  EXPECT_EQ(figures_.pass_count, 4u);
  const ExitFigures& early = figures_.exits[0];
  EXPECT_EQ(early.layer, 3u);
  EXPECT_EQ(early.depth, 0.5);
  EXPECT_EQ(early.match_rate, 0.25);
  EXPECT_EQ(early.root_match_rate, 0.25);
  EXPECT_EQ(early.calibrated.mean, 0.375);
  EXPECT_EQ(early.calibrated.error, (0.5 + 0.25 + 0.75 + 0) / 4);  // a bin each
  EXPECT_EQ(early.calibrated.area, 2.0 / 3);                       // 0.5 > 0.25, 0; < 0.75
  EXPECT_EQ(early.softmax.area, 1.0 / 3);                          // the other way round
  EXPECT_EQ(early.softmax.mean, 0.625);

  const ExitFigures& late = figures_.exits[1];
  EXPECT_EQ(late.match_rate, 0.75);
  EXPECT_EQ(late.calibrated.area, 2.5 / 3);  // two are above 0.25, one ties

  const ExitFigures& all = figures_.exits[2];
  EXPECT_FALSE(all.layer.has_value());
  EXPECT_EQ(all.guess_count, 8u);
  EXPECT_EQ(all.match_rate, 0.5);
  EXPECT_DOUBLE_EQ(all.cost, 0.03);
}

TEST_F(EvaluationTest, IsWrittenAndDrawn) {
  EXPECT_THAT(ToTable(figures_), StartsWith("greedy, 4 passes\n"));
  EXPECT_THAT(ToTable(figures_), HasSubstr("    3     50 %   25.0 %   25.0 %    0.375    0.375"));
  EXPECT_THAT(ToTable(figures_), HasSubstr("  all            50.0 %"));
  EXPECT_THAT(ToCsv({&figures_, 1}), HasSubstr("\ngreedy,3,0.5,4,0.25,0.25,0.375,0.375,0.66666"));
  const Chart layers = MatchesByLayer({&figures_, 1}, "model");
  ASSERT_EQ(layers.lines.size(), 4u);
  EXPECT_EQ(layers.lines[0].points, (std::vector<std::pair<double, double>>{
                                        {50, 25}, {75, 75}}));  // % of layers, of guesses
  const Chart reliability = ReliabilityDiagram({&figures_, 1}, "model");
  ASSERT_EQ(reliability.lines.size(), 3u);
  EXPECT_EQ(reliability.lines[1].points.size(), 8u);
  EXPECT_EQ(reliability.lines[1].points[6], std::pair(0.75, 1.0));  // the tie in their order
  EXPECT_EQ(reliability.lines[1].points[7], std::pair(0.75, 0.0));
}

// No guess was right, or there was none: there is nothing to rank.
TEST_F(EvaluationTest, HasNoAreaWhereAllWereAlike) {
  GuessLog log;
  AddPass(log, 1, 0.5f, 7, 0.5f);
  const ModeFigures figures = Evaluate("sampled", log, exits_, std::vector<double>{0, 0});
  EXPECT_FALSE(figures.exits[0].calibrated.area.has_value());
  EXPECT_FALSE(figures.exits[1].softmax.area.has_value());
  EXPECT_THAT(ToTable(figures), HasSubstr("        -"));
  EXPECT_EQ(Evaluate("greedy", GuessLog(), exits_, std::vector<double>{0, 0}).exits[0].guess_count,
            0u);
}

}  // namespace
}  // namespace outrider
