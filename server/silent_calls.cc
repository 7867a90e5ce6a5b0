#include "server/silent_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "server/security/origin.h"

namespace outrider {
namespace {

// Whoever answers it finds it cancelled; its caller is told this. Without the mutex: what that call
// has waited for may happen on this thread.
void Cancel(grpc_call* call, grpc_status_code code, const std::string& why) {
  grpc_call_cancel_with_status(call, code, why.c_str(), nullptr);
}

std::string WhyNoLonger(Refusal why) {
  const bool is_origins = why == Refusal::kSilentCallsOfAddress;
  return Concat(is_origins ? "this address" : "this server", " may have no more than ",
                is_origins ? SilentCalls::kOfOriginMax : SilentCalls::kMax,
                " calls at a time of which no message has come; send it with the call's headers");
}

}  // namespace

SilentCalls::SilentCalls(Duration longest, EntranceLog& entrance)
    : longest_(longest), entrance_(entrance), thread_([this] { EndOverdue(); }) {}

SilentCalls::~SilentCalls() {
  {
    MutexLock lock(mu_);
    is_closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

uint64_t SilentCalls::Begin(grpc_call* call, const std::string& peer, Ends ends) {
  grpc_call_ref(call);
  const std::string origin = OriginOf(peer);
  uint64_t number = 0;
  std::optional<Refused> refused;
  {
    MutexLock lock(mu_);
    if (silent_.empty()) changed_.NotifyAll();
    number = ++last_number_;
    silent_.emplace(number, Silent{.call = std::unique_ptr<grpc_call, Unref>(call),
                                   .origin = origin,
                                   .since = RealClock().Now(),
                                   .ends = ends});
    ++by_origin_[origin];
    refused = TakeSurplus(origin);
  }
  if (refused) {
    entrance_.Refused(refused->why, "", refused->call.origin);
    Cancel(refused->call.call.get(), GRPC_STATUS_RESOURCE_EXHAUSTED, WhyNoLonger(refused->why));
  }
  return number;
}

void SilentCalls::End(uint64_t number) {
  std::optional<Silent> ended;  // let go of without the mutex
  MutexLock lock(mu_);
  const auto found = silent_.find(number);
  if (found != silent_.end()) ended = Take(found);
}

// The oldest, where the newest is one too many: there was room before.
std::optional<SilentCalls::Refused> SilentCalls::TakeSurplus(const std::string& newest_origin) {
  if (by_origin_.at(newest_origin) > kOfOriginMax) {
    const auto oldest = std::find_if(silent_.begin(), silent_.end(), [&](const auto& entry) {
      return entry.second.origin == newest_origin;
    });
    return Refused{Take(oldest), Refusal::kSilentCallsOfAddress};
  }
  if (silent_.size() <= kMax) return std::nullopt;
  return Refused{Take(silent_.begin()), Refusal::kSilentCalls};
}

SilentCalls::Silent SilentCalls::Take(ByAge::iterator silent) {
  Silent taken = std::move(silent->second);
  silent_.erase(silent);
  const auto of_origin = by_origin_.find(taken.origin);
  if (--of_origin->second == 0) by_origin_.erase(of_origin);
  return taken;
}

// --- its thread ---

void SilentCalls::EndOverdue() {
  while (const std::optional<Silent> overdue = AwaitOverdue()) {
    if (overdue->ends == Ends::kInMachine) continue;
    Cancel(overdue->call.get(), GRPC_STATUS_DEADLINE_EXCEEDED,
           "nothing has come of this call but its headers; send its message with them");
  }
}

std::optional<SilentCalls::Silent> SilentCalls::AwaitOverdue() {
  MutexLock lock(mu_);
  while (!is_closing_) {
    if (silent_.empty()) {
      changed_.Wait(mu_);
      continue;
    }
    const MonotonicTime due = silent_.begin()->second.since + longest_;
    if (RealClock().Now() >= due) return Take(silent_.begin());
    changed_.WaitUntil(mu_, due);
  }
  return std::nullopt;
}

}  // namespace outrider
