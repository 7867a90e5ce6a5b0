// What chains bring is counted from agreement token by token; here from agreement made up by hand.
#include "adapters/agreement/agreement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Says that every token is followed by the next number; of even tokens it knows nothing, and the
// token 9 is beyond it.
class Counter final : public Drafter {
 public:
  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& /*cancellation*/) override {
    EXPECT_TRUE(nodes.empty());
    EXPECT_EQ(contexts.size(), 1);
    const TokenId last = committed.tokens().back();
    if (last == 9) return absl::ResourceExhaustedError("nine is too much");
    const Proposal next = {last + 1, 0.5};
    proposals.Clear(1, 1);
    proposals.Add({&next, last % 2 == 0 ? size_t{0} : size_t{1}});
    return absl::OkStatus();
  }
};

TEST(AgreementTest, ComparesWithWhatIsWritten) {
  Counter drafter;
  const std::vector<TokenId> text = {5, 3, 4, 5, 7, 8};
  const auto agreement = Compare(drafter, 10, text, 2);
  ASSERT_TRUE(agreement.ok()) << agreement.status();
  // 3 -> 4 is foreseen, 4 has no proposal, 5 -> 7 is not 6, 7 -> 8 is foreseen.
  EXPECT_THAT(*agreement, ElementsAre(1, 0, 0, 1));
}

TEST(AgreementTest, PassesOnWhatTheDrafterSays) {
  Counter drafter;
  const std::vector<TokenId> text = {1, 9, 3};
  EXPECT_TRUE(absl::IsResourceExhausted(Compare(drafter, 10, text, 1).status()));
}

TEST(AgreementTest, CountsChainsThatBeginBehindThePassesToken) {
  // Of two: [1 1] 1 [0 .] [1 0] ., so 2 + 0 + 1 of three chains; the last token is no chain.
  const std::vector<Agreement> replies = {{1, 1, 1, 0, 1, 0, 1}};
  EXPECT_DOUBLE_EQ(MeanAccepted(replies, 2), 1.0);
  // Of four: [1 1 1 0] and three tokens that are left out.
  EXPECT_DOUBLE_EQ(MeanAccepted(replies, 4), 3.0);
  EXPECT_DOUBLE_EQ(MeanAccepted(replies, 8), 0.0);
  EXPECT_DOUBLE_EQ(FirstChoiceRate(replies), 5.0 / 7);
}

TEST(AgreementTest, CountsAllChainsOfAllRepliesAlike) {
  const std::vector<Agreement> replies = {{1, 1}, {}, {0, 0, 0}};
  EXPECT_DOUBLE_EQ(MeanAccepted(replies, 2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(FirstChoiceRate(replies), 2.0 / 5);
  EXPECT_DOUBLE_EQ(FirstChoiceRate({}), 0);
}

TEST(AgreementTest, TellsRepetition) {
  EXPECT_DOUBLE_EQ(Repetition(std::vector<TokenId>{1, 2, 3}), 0);
  EXPECT_DOUBLE_EQ(Repetition(std::vector<TokenId>{1, 2, 3, 4, 5, 6, 7, 8}), 0);
  // 1234 2341 3412 4123 1234
  EXPECT_DOUBLE_EQ(Repetition(std::vector<TokenId>{1, 2, 3, 4, 1, 2, 3, 4}), 1 - 4.0 / 5);
}

}  // namespace
}  // namespace outrider
