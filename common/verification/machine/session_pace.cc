#include "common/verification/machine/session_pace.h"

namespace outrider {

void SessionPace::RootKnown(const VerifiedSequence& sequence, std::optional<DryWait::PassTime> pass,
                            MonotonicTime now) {
  dry_.RootKnown(sequence.verdict_count(), !sequence.has_growth(), pass, now);
  due_.RootKnown(sequence.verdict_count(), sequence.Promise(), now);
}

void SessionPace::Grown(const v1::Grow& grow, const VerifiedSequence& sequence, MonotonicTime now) {
  if (grow.nodes().empty()) return;
  last_growth_ = now;
  dry_.Grown(grow.seen(), now);
  due_.Grown(grow.seen(), sequence.Promise(), now);
}

void SessionPace::Yielded(uint32_t nodes, uint32_t tokens) {
  dry_.Yielded(nodes, tokens);
  due_.Yielded(tokens);
}

SessionPace::Start SessionPace::NextStart(const VerifiedSequence& sequence) const {
  constexpr MonotonicTime kAtOnce{};
  if (sequence.told_to_go()) return {kAtOnce};
  if (sequence.drafted_here()) return {};  // what is under way ends with being told to go
  if (policy_ == v1::DRY_POLICY_ALONE) return {due_.BeginAt()};
  if (sequence.has_growth()) return {kAtOnce};
  if (waits()) return {};
  return {dry_.AloneAt(), /*can_wait=*/true};
}

}  // namespace outrider
