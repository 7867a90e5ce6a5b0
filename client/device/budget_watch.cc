#include "client/device/budget_watch.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

}  // namespace

BudgetWatch::BudgetWatch(const MemoryPlan& plan, std::shared_ptr<StreamingWeights> weights,
                         Limit limit, Duration look_every)
    : planned_bytes_(plan.planned_bytes),
      least_bytes_(plan.least_bytes),
      weights_(std::move(weights)),
      limit_(std::move(limit)),
      look_every_(look_every),
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
    if (!stopping_) stopped_.WaitUntil(mu_, RealClock().Now() + look_every_);
    if (stopping_) return;
  }
}

void BudgetWatch::Look() {
  const std::optional<uint64_t> limit = limit_();
  if (!limit || *limit + given_up_bytes_ >= planned_bytes_) return;
  if (*limit < least_bytes_) {
    weights_->Refuse(ResourceExhausted(
        "--memory: the limit of this process's control group is now ", *limit / kMebibyte,
        "MiB, and the least that works is ", (least_bytes_ + kMebibyte - 1) / kMebibyte,
        "MiB; raise it, or start again with a smaller --context"));
    return;
  }
  const uint64_t over = planned_bytes_ - given_up_bytes_ - *limit;
  weights_->GiveUp(over);
  given_up_bytes_ += over;
}

}  // namespace outrider
