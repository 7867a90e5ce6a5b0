#include "client/device/flash_meter.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

// Reads that went on between two runs are of layers that the next one begins with.
FlashWait WaitBetween(const StreamStats& before, const StreamStats& after, uint32_t row_count) {
  const auto uses = [](const StreamStats& stats) {
    return stats.experts.cache.hits + stats.experts.cache.misses;
  };
  const std::chrono::duration<double, std::milli> stalled = after.stalled - before.stalled;
  const uint64_t expert_count = uses(after) - uses(before);
  if (expert_count == 0) return {.row_count = row_count, .waited_ms = stalled.count()};
  const uint64_t expert_bytes = after.experts.cache.taken_bytes - before.experts.cache.taken_bytes;
  const uint64_t bytes = std::max(after.bytes_read - before.bytes_read, expert_bytes);
  const double share =
      bytes == 0 ? 0 : static_cast<double>(expert_bytes) / static_cast<double>(bytes);
  return {.row_count = row_count,
          .expert_count = static_cast<uint32_t>(expert_count),
          .waited_ms = share * stalled.count()};
}

}  // namespace

void FlashMeter::Add(const FlashWait& wait) {
  MutexLock lock(mu_);
  waits_[count_++ % kKept] = wait;
}

size_t FlashMeter::Tell(uint64_t& known, Waits& waits) const {
  MutexLock lock(mu_);
  const uint64_t first = std::max(known, count_ - std::min<uint64_t>(count_, kKept));
  known = count_;
  for (uint64_t i = first; i < count_; ++i) waits[i - first] = waits_[i % kKept];
  return static_cast<size_t>(count_ - first);
}

void MeteredTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                        std::span<PassResult> results) {
  OtherTarget::Run(readings, passes, results);
  const StreamStats before = std::exchange(before_, stats_());
  if (!readings.empty() || passes.size() != 1 || !results[0].status.ok()) return;
  const auto row_count = static_cast<uint32_t>(1 + passes[0].nodes.size());
  meter_.Add(WaitBetween(before, before_, row_count));
}

void MeteredController::Decided(const DraftView& draft) {
  FlashMeter::Waits waits;
  const size_t count = meter_.Tell(known_, waits);
  for (const FlashWait& wait : std::span(waits).first(count)) {
    if (wait.expert_count > 0) {
      costs_.MeasuredExperts(wait.row_count, wait.expert_count, wait.waited_ms);
    } else {
      costs_.MeasuredFlashWait(wait.row_count, wait.waited_ms);
    }
  }
  controller_->Decided(draft);
}

}  // namespace outrider
