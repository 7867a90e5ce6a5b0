#include "client/device/budget_watch.h"

#include <string>
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
  if (!limit || *limit >= planned_bytes_) return weights_->GiveUp(0, absl::OkStatus());
  weights_->GiveUp(planned_bytes_ - *limit, TooLow(*limit));
}

absl::Status BudgetWatch::TooLow(uint64_t limit) const {
  const std::string is_now = Concat("--memory: the limit of this process's control group is now ",
                                    limit / kMebibyte, "MiB, and ");
  if (limit < least_bytes_) {
    return ResourceExhausted(is_now, "the least that works is ",
                             (least_bytes_ + kMebibyte - 1) / kMebibyte,
                             "MiB; raise it, or start again with a smaller --context");
  }
  return ResourceExhausted(
      is_now, "of the ", planned_bytes_ / kMebibyte,
      "MiB that were planned so much cannot be given up any more; raise it, or "
      "start again");
}

}  // namespace outrider
