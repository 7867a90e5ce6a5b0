// Batches of a drafter that waits to be told what to do.
#include "client/driver/draft_worker.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Proposes the last committed token; works on until somebody lets it go, or cancels.
class PatientDrafter final : public Drafter {
 public:
  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode>,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation) override {
    proposals.Clear(contexts.size(), contexts.size());
    MutexLock lock(mu_);
    ++begun_;
    changed_.NotifyAll();
    while (let_go_ == 0 && !cancellation.cancelled()) {
      changed_.WaitUntil(mu_, RealClock().Now() + std::chrono::milliseconds(1));
    }
    if (cancellation.cancelled()) return absl::CancelledError("not wanted any more");
    --let_go_;
    const Proposal proposal = {committed.tokens().back(), 0.5};
    for (size_t i = 0; i < contexts.size(); ++i) proposals.Add({&proposal, 1});
    return absl::OkStatus();
  }

  void LetGo(int count) {
    MutexLock lock(mu_);
    let_go_ += count;
    changed_.NotifyAll();
  }
  void AwaitBegun(int count) {
    MutexLock lock(mu_);
    while (begun_ < count) changed_.Wait(mu_);
  }
  int begun() {
    MutexLock lock(mu_);
    return begun_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int let_go_ ABSL_GUARDED_BY(mu_) = 0;
  int begun_ ABSL_GUARDED_BY(mu_) = 0;
};

class DraftWorkerTest : public ::testing::Test {
 protected:
  static constexpr size_t kCapacity = 10;  // tokens

  struct Answer {
    uint64_t batch;
    TokenId token;
    absl::StatusCode code;
  };

  void Begin(uint64_t batch, TokenId last) {
    const std::vector<TokenId> committed = {1, 2, last};
    const std::vector<Drafter::Context> contexts = {{DraftedNode::kRoot, 1}};
    worker_.Begin({batch, committed, 1, {}, contexts});
  }

  std::vector<uint64_t> AwaitAnswers(size_t count) {
    MutexLock lock(mu_);
    while (answers_.size() < count) answered_.Wait(mu_);
    std::vector<uint64_t> batches;
    for (const Answer& answer : answers_) batches.push_back(answer.batch);
    return batches;
  }
  Answer At(size_t i) {
    MutexLock lock(mu_);
    return answers_[i];
  }

  PatientDrafter drafter_;
  Mutex mu_;
  CondVar answered_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mu_);
  DraftWorker worker_{
      drafter_,
      {.vocabulary_size = 100, .capacity = kCapacity},
      /*is_patient=*/false,
      [this](uint64_t batch, std::span<const std::span<const Proposal>> children,
             const absl::Status& status) {
        MutexLock lock(mu_);
        answers_.push_back({batch, status.ok() ? children[0][0].token : -1, status.code()});
        answered_.NotifyAll();
      }};
};

TEST_F(DraftWorkerTest, AnswersBatchesInTheOrderInWhichTheyWereBegun) {
  for (uint64_t batch = 1; batch <= 3; ++batch) Begin(batch, static_cast<TokenId>(10 * batch));
  drafter_.LetGo(3);
  EXPECT_THAT(AwaitAnswers(3), ElementsAre(1, 2, 3));
  for (size_t i = 0; i < 3; ++i) {  // each about its own text
    EXPECT_EQ(At(i).token, static_cast<TokenId>(10 * (i + 1)));
    worker_.Release(i + 1);
  }
}

TEST_F(DraftWorkerTest, DropsABatchThatWaits) {
  Begin(1, 10);
  drafter_.AwaitBegun(1);
  Begin(2, 20);
  Begin(3, 30);
  worker_.Cancel(2);
  drafter_.LetGo(2);
  EXPECT_THAT(AwaitAnswers(2), ElementsAre(1, 3));
  EXPECT_EQ(drafter_.begun(), 2);
  worker_.Cancel(1);  // answered already
}

TEST_F(DraftWorkerTest, EndsABatchUnderWayWhenTheDrafterLooks) {
  Begin(1, 10);
  drafter_.AwaitBegun(1);
  worker_.Cancel(1);
  AwaitAnswers(1);
  EXPECT_EQ(At(0).code, absl::StatusCode::kCancelled);
  worker_.Release(1);
  Begin(2, 20);  // which has a cancellation of its own
  drafter_.LetGo(1);
  EXPECT_THAT(AwaitAnswers(2), ElementsAre(1, 2));
  EXPECT_EQ(At(1).code, absl::StatusCode::kOk);
}

// Behind one under way, so that nothing else happens meanwhile.
TEST_F(DraftWorkerTest, ATextThatGrowsTakesNoMoreMemory) {
  Begin(1, 10);
  drafter_.AwaitBegun(1);
  std::vector<TokenId> committed = {1, 2, 3};
  committed.reserve(kCapacity);
  const std::vector<Drafter::Context> contexts = {{DraftedNode::kRoot, 1}};
  uint64_t batch = 1;
  const auto begin_and_cancel = [&] {
    worker_.Begin({++batch, committed, 1, {}, contexts});
    worker_.Cancel(batch);
  };
  begin_and_cancel();
  const uint64_t before = AllocationCount();
  while (committed.size() < kCapacity) {
    committed.push_back(4);
    begin_and_cancel();
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST_F(DraftWorkerTest, EndsWithABatchUnderWay) {
  Begin(1, 10);
  drafter_.AwaitBegun(1);
}

}  // namespace
}  // namespace outrider
