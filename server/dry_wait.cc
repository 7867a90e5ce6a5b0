#include "server/dry_wait.h"

#include <chrono>

namespace outrider {
namespace {

// Roots in a row without any growth after which none is expected.
constexpr uint32_t kSilentRootsMax = 4;
// Of a device that has never answered, or a target that has never run.
constexpr double kFirstWaitSeconds = 0.02;
constexpr double kFirstYield = 2;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void DryWait::RootKnown(MonotonicTime now) {
  root_known_ = now;
  awaiting_ = true;
  ++silent_roots_;
}

void DryWait::Grown(bool answers, MonotonicTime now) {
  silent_roots_ = 0;
  if (!answers || !awaiting_) return;
  awaiting_ = false;
  delay_.Add(std::chrono::duration<double>(now - root_known_).count());
}

void DryWait::Yielded(uint32_t tokens) {
  yield_.Add(tokens);
}

MonotonicTime DryWait::AloneAt(std::optional<double> pass_seconds) const {
  if (silent_roots_ > kSilentRootsMax) return root_known_;
  if (!delay_.value()) return root_known_ + FromSeconds(pass_seconds.value_or(kFirstWaitSeconds));
  const double worth = yield_.value().value_or(kFirstYield) - 1;
  if (*delay_.value() > worth * pass_seconds.value_or(kFirstWaitSeconds)) return root_known_;
  return root_known_ + FromSeconds(2 * *delay_.value());
}

}  // namespace outrider
