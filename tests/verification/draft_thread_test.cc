#include "common/verification/draft_thread.h"

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

DraftJob First(uint64_t session) {
  return {.session = session,
          .known_count = 0,
          .tokens = {'a'},
          .reply_begin = 1,
          .chooser = *Chooser::Create({}, 256),
          .token_count_max = 2};
}

// Proposes the same token for ever, or, patient, nothing until nobody wants it any more.
class Stubborn final : public Drafter {
 public:
  Stubborn(bool is_patient, std::atomic<bool>& began) : is_patient_(is_patient), began_(began) {}

  absl::Status Propose(const TokenHistory&, std::span<const DraftedNode>, std::span<const Context>,
                       Proposals& proposals, const Cancellation& cancellation) override {
    began_ = true;
    while (is_patient_ && !cancellation.cancelled()) std::this_thread::yield();
    if (cancellation.cancelled()) return absl::CancelledError("nobody wants it");
    const Proposal proposal = {'x', 0.5};
    proposals.Clear(1, 1);
    proposals.Add({&proposal, 1});
    return absl::OkStatus();
  }

 private:
  const bool is_patient_;
  std::atomic<bool>& began_;
};

// What has been drafted, by session.
class Drafts {
 public:
  void Take(uint64_t session, std::span<const TokenId> chain) {
    MutexLock lock(mu_);
    drafted_[session] = {chain.begin(), chain.end()};
    changed_.NotifyAll();
  }
  std::vector<TokenId> Await(uint64_t session) {
    MutexLock lock(mu_);
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(30);
    while (!drafted_.contains(session)) {
      if (!changed_.WaitUntil(mu_, deadline)) ADD_FAILURE() << "no draft of " << session;
    }
    return drafted_.at(session);
  }
  bool Has(uint64_t session) {
    MutexLock lock(mu_);
    return drafted_.contains(session);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, std::vector<TokenId>> drafted_ ABSL_GUARDED_BY(mu_);
};

class DraftThreadTest : public ::testing::Test {
 protected:
  std::atomic<bool> is_patient_ = false;  // drafters from now on
  std::atomic<bool> began_ = false;       // one of them
  Drafts drafts_;
  DraftThread thread_{
      [this](const Chooser&) { return std::make_unique<Stubborn>(is_patient_, began_); }, 64,
      [this](uint64_t session, std::span<const TokenId> chain, Duration) {
        drafts_.Take(session, chain);
      }};
};

TEST_F(DraftThreadTest, DoesOneJobAfterTheOther) {
  thread_.Do(First(1));
  thread_.Do(First(2));
  const std::vector<TokenId> chain = {'x', 'x'};
  EXPECT_EQ(drafts_.Await(1), chain);
  EXPECT_EQ(drafts_.Await(2), chain);
}

TEST_F(DraftThreadTest, OfSessionsThatHaveGoneNothingIsDone) {
  is_patient_ = true;
  thread_.Do(First(1));
  while (!began_) std::this_thread::yield();
  thread_.Do(First(2));
  thread_.Forget(2);
  thread_.Forget(1);
  EXPECT_TRUE(drafts_.Await(1).empty());
  EXPECT_FALSE(drafts_.Has(2));
}

TEST_F(DraftThreadTest, WaitsForNobodyWhenItEnds) {
  is_patient_ = true;
  thread_.Do(First(1));
}

}  // namespace
}  // namespace outrider
