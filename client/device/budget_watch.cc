#include "client/device/budget_watch.h"

#include <chrono>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(250);

uint64_t Mebibytes(uint64_t bytes) {
  return (bytes + (1 << 20) - 1) >> 20;
}

}  // namespace

BudgetWatch::BudgetWatch(const MemoryPlan& plan, std::shared_ptr<StreamingWeights> weights,
                         Limit limit)
    : planned_bytes_(plan.planned_bytes),
      least_bytes_(plan.least_bytes),
      weights_(std::move(weights)),
      limit_(std::move(limit)),
      thread_([this] { Run(); }) {}

BudgetWatch::~BudgetWatch() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

void BudgetWatch::Run() {
  for (;;) {
    Look();
    MutexLock lock(mu_);
    if (!stopping_) stopped_.WaitUntil(mu_, RealClock().Now() + kLookEvery);
    if (stopping_) return;
  }
}

void BudgetWatch::Look() {
  const std::optional<uint64_t> limit = limit_();
  if (!limit || *limit + given_up_bytes_ >= planned_bytes_) return;
  if (*limit < least_bytes_) {
    weights_->Refuse(ResourceExhausted(
        "--memory: the limit of this process's control group is now ", Mebibytes(*limit),
        " MiB, and the least that works is ", Mebibytes(least_bytes_),
        "MiB; raise it, or start again with a smaller --context"));
    return;
  }
  const uint64_t over = planned_bytes_ - given_up_bytes_ - *limit;
  weights_->GiveUp(over);
  given_up_bytes_ += over;
}

}  // namespace outrider
