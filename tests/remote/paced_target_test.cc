// A target that takes its time says what the other one says, and no sooner than it may.
#include "bench/emulators/paced_target.h"

#include <memory>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"

namespace outrider {
namespace {

class PacedTargetTest : public testing::Test {
 protected:
  explicit PacedTargetTest(std::string_view pace = "1:20,3:40")
      : paced_(*target_, OrDie(TimeProfile::Parse(pace))) {
    OUTRIDER_CHECK_OK(history_.Append(prompt_));
  }

  // How long it took; what it says is in result_.
  Duration Pass(SequenceId sequence, std::span<const DraftedNode> nodes) {
    const outrider::Pass pass = {sequence, nodes, &chooser_, &history_};
    const MonotonicTime begin = RealClock().Now();
    paced_.Run({}, {&pass, 1}, {&result_, 1});
    const Duration time = RealClock().Now() - begin;
    OUTRIDER_CHECK_OK(result_.status);
    return time;
  }

  const std::vector<TokenId> prompt_ = TheTokenizer().Encode("Once upon a time");
  const Chooser chooser_ = OrDie(Chooser::Create({}, TheTokenizer().vocabulary_size()));
  TokenHistory history_{{.vocabulary_size = TheTokenizer().vocabulary_size(),
                         .capacity = kContext + 1,
                         .counts_tokens = false}};
  const std::unique_ptr<Target> target_ = NewTarget();
  PacedTarget paced_;
  PassResult result_;
};

TEST_F(PacedTargetTest, RunsLastAsLongAsTheirRowsSay) {
  const SequenceId sequence = OrDie(paced_.CreateSequence());
  const MonotonicTime begin = RealClock().Now();
  OUTRIDER_CHECK_OK(paced_.Prefill(sequence, prompt_, nullptr));
  const auto read = static_cast<double>(prompt_.size());
  EXPECT_GE(RealClock().Now() - begin, Milliseconds(20 + 10 * (read - 1)));
  EXPECT_GE(Pass(sequence, {}), Milliseconds(20));
  const std::vector<DraftedNode> nodes = {{300, DraftedNode::kRoot}, {301, 0}};
  EXPECT_GE(Pass(sequence, nodes), Milliseconds(40));
  EXPECT_EQ(paced_.lateness().run_count, 3u);
}

TEST_F(PacedTargetTest, TheTextIsThatOfTheTargetAlone) {
  const Written alone = Alone(prompt_, {}, {.max_tokens = 8}, true);
  const SequenceId sequence = OrDie(paced_.CreateSequence());
  OUTRIDER_CHECK_OK(paced_.Prefill(sequence, prompt_, nullptr));
  std::vector<TokenId> tokens = prompt_;
  while (tokens.size() < alone.tokens.size()) {
    Pass(sequence, {});
    OUTRIDER_CHECK_OK(paced_.Commit(sequence, result_.outcome));
    OUTRIDER_CHECK_OK(history_.Append({&result_.outcome.next, 1}));
    tokens.push_back(result_.outcome.next);
  }
  EXPECT_EQ(tokens, alone.tokens);
}

class HurriedTargetTest : public PacedTargetTest {
 protected:
  HurriedTargetTest() : PacedTargetTest("0") {}
};

TEST_F(HurriedTargetTest, RunsThatTakeLongerThanTheyMayAreCounted) {
  const SequenceId sequence = OrDie(paced_.CreateSequence());
  OUTRIDER_CHECK_OK(paced_.Prefill(sequence, prompt_, nullptr));
  Pass(sequence, {});
  EXPECT_EQ(paced_.lateness().run_count, 2u);
  EXPECT_EQ(paced_.lateness().late_count, 2u);
  EXPECT_GT(paced_.lateness().most, Duration::zero());
}

}  // namespace
}  // namespace outrider
