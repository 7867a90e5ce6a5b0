#include "common/verification/draft_runner.h"

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kContext = 64;

std::vector<TokenId> Tokens(std::string_view text) {
  return {text.begin(), text.end()};
}

// Proposes the letter after the one there is, writes down what it was told, and fails on request.
class Alphabet final : public Drafter {
 public:
  struct Notes {
    std::string committed;
    size_t reply_begin = 0;
    bool fails = false;
    int living = 0;
  };

  static constexpr double kConfidence = 0.5;

  explicit Alphabet(Notes& notes) : notes_(notes) { ++notes_.living; }
  ~Alphabet() override { --notes_.living; }

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation&) override {
    if (notes_.fails) return InvalidArgument("not now");
    notes_.committed.assign(committed.tokens().begin(), committed.tokens().end());
    notes_.reply_begin = committed.reply_begin();
    const uint32_t node = contexts.front().node;
    const TokenId last = node == DraftedNode::kRoot ? committed.tokens().back() : nodes[node].token;
    proposals.Clear(1, 1);
    const Proposal next = {last + 1, kConfidence};
    if (last == 'z') {
      proposals.Add({});
    } else {
      proposals.Add({&next, 1});
    }
    return absl::OkStatus();
  }

 private:
  Notes& notes_;
};

class DraftRunnerTest : public ::testing::Test {
 protected:
  DraftRunner::NewDrafter NewAlphabet() {
    return [this](const Chooser& chooser) -> absl::StatusOr<std::unique_ptr<Drafter>> {
      EXPECT_EQ(chooser.options().seed, 7u);
      if (full_) return ResourceExhausted("no room");
      return std::make_unique<Alphabet>(notes_);
    };
  }

  static DraftJob First(uint64_t session, std::string_view text, uint32_t reply_begin) {
    SamplingOptions sampling;
    sampling.seed = 7;
    return {.session = session,
            .known_count = 0,
            .tokens = Tokens(text),
            .reply_begin = reply_begin,
            .chooser = *Chooser::Create(sampling, 256),
            .token_count_max = 4};
  }
  static DraftJob Next(uint32_t known, std::string_view text, uint32_t reply_begin) {
    return {.session = 1,
            .known_count = known,
            .tokens = Tokens(text),
            .reply_begin = reply_begin,
            .token_count_max = 2};
  }

  Alphabet::Notes notes_;
  bool full_ = false;
  DraftRunner runner_{NewAlphabet(), kContext};
};

TEST_F(DraftRunnerTest, DraftsAChainBelowWhatItWasTold) {
  EXPECT_THAT(runner_.Execute(First(1, "abc", 3)), ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_EQ(notes_.committed, "abc");
  EXPECT_EQ(notes_.reply_begin, 3u);
  EXPECT_THAT(runner_.Execute(Next(3, "dex", 3)), ElementsAre('y', 'z'));
  EXPECT_EQ(notes_.committed, "abcdex");
  EXPECT_EQ(notes_.reply_begin, 3u);
}

TEST_F(DraftRunnerTest, AChainEndsWhereTheDraftKnowsNoMore) {
  EXPECT_THAT(runner_.Execute(First(1, "x", 1)), ElementsAre('y', 'z'));
}

TEST_F(DraftRunnerTest, AChainEndsWhereItsTokensAreTooUnlikely) {
  DraftJob job = First(1, "abc", 3);
  job.least_chance = Alphabet::kConfidence * Alphabet::kConfidence;
  EXPECT_THAT(runner_.Execute(job), ElementsAre('d', 'e'));
}

// A reply that had begun before the first job, a turn after it, and one that was cut.
TEST_F(DraftRunnerTest, KnowsWhereTheReplyBegins) {
  runner_.Execute(First(1, "abcde", 2));
  EXPECT_EQ(notes_.committed, "abcde");
  EXPECT_EQ(notes_.reply_begin, 2u);
  runner_.Execute(Next(5, "fg turn", 12));
  EXPECT_EQ(notes_.committed, "abcdefg turn");
  EXPECT_EQ(notes_.reply_begin, 12u);
  runner_.Execute(Next(4, "other", 9));
  EXPECT_EQ(notes_.committed, "abcdother");
  EXPECT_EQ(notes_.reply_begin, 9u);
}

TEST_F(DraftRunnerTest, ADraftThatFailsEndsItsChainAndTriesAgain) {
  notes_.fails = true;
  EXPECT_THAT(runner_.Execute(First(1, "abc", 3)), IsEmpty());
  notes_.fails = false;
  EXPECT_THAT(runner_.Execute(Next(3, "x", 3)), SizeIs(2));
  EXPECT_EQ(notes_.committed, "abcx");
}

TEST_F(DraftRunnerTest, WhoFindsNoRoomIsDraftedNothing) {
  full_ = true;
  EXPECT_THAT(runner_.Execute(First(1, "abc", 3)), IsEmpty());
  full_ = false;
  EXPECT_THAT(runner_.Execute(Next(3, "x", 3)), IsEmpty());
}

TEST_F(DraftRunnerTest, WhoIsForgottenLeavesNothing) {
  runner_.Execute(First(1, "abc", 3));
  runner_.Execute(First(2, "abc", 3));
  EXPECT_EQ(notes_.living, 2);
  runner_.Forget(1);
  runner_.Forget(3);  // whom it never knew
  EXPECT_EQ(notes_.living, 1);
}

}  // namespace
}  // namespace outrider
