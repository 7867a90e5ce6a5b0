#include "common/verification/machine/session_pace.h"

#include <algorithm>
#include <chrono>

namespace outrider {

void SessionPace::RootKnown(const VerifiedSequence& sequence, std::optional<DryWait::PassTime> pass,
                            MonotonicTime now) {
  dry_.RootKnown(sequence.verdict_count(), !sequence.has_growth(), pass, now);
  due_.RootKnown(sequence.verdict_count(), sequence.Promise(),
                 pass ? std::optional(pass->seconds) : std::nullopt, now);
  // Growth that comes a moment after others' run has begun waits for all of that.
  std::optional<double> lost = dry_.delay();
  if (lost && pass) lost = std::max(*lost, pass->seconds);
  joining_.RootKnown(!sequence.has_growth(), lost, now);
}

void SessionPace::Grown(const v1::Grow& grow, const VerifiedSequence& sequence, MonotonicTime now) {
  if (grow.nodes().empty()) return;
  last_growth_ = now;
  dry_.Grown(sequence.seen(), now);
  due_.Grown(sequence.seen(), sequence.Promise(), now);
}

void SessionPace::Begins(const VerifiedSequence& sequence, MonotonicTime now) {
  began_grown_ = sequence.has_growth();
  if (!began_grown_) joining_.GoesAlone(now);
}

void SessionPace::Yielded(uint32_t nodes, uint32_t tokens) {
  dry_.Yielded(began_grown_, tokens);
  due_.Yielded(tokens);
  joining_.Passed(began_grown_, 1 + nodes, tokens);
}

SessionPace::Start SessionPace::NextStart(const VerifiedSequence& sequence) const {
  constexpr MonotonicTime kAtOnce{};
  if (sequence.told_to_go()) return {kAtOnce};
  if (sequence.drafted_here()) return {};  // what is under way ends with being told to go
  if (policy_ == v1::DRY_POLICY_TURNS) return {};
  if (policy_ == v1::DRY_POLICY_ALONE) return {due_.BeginAt()};
  if (sequence.has_growth()) return {kAtOnce};
  if (waits()) return {};
  return {dry_.AloneAt(), /*can_wait=*/true};
}

bool SessionPace::Joins(const VerifiedSequence& sequence, const Joining::Run& run,
                        MonotonicTime now) const {
  if (sequence.drafted_here() || sequence.has_growth()) return false;
  const std::optional<double> delay = dry_.delay();
  if (!delay) return false;
  const std::optional<MonotonicTime> at = dry_.GrowthAt();
  if (!at) return true;
  return joining_.Joins(run, *delay, std::chrono::duration<double>(*at - now).count());
}

}  // namespace outrider
