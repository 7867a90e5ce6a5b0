#include "client/device/expert_meter.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

// Reads that went on between two runs are of layers that the next one begins with.
ExpertUse UseBetween(const StreamStats& before, const StreamStats& after, uint32_t row_count) {
  const auto uses = [](const StreamStats& stats) {
    return stats.experts.cache.hits + stats.experts.cache.misses;
  };
  const uint64_t expert_bytes = after.experts.cache.taken_bytes - before.experts.cache.taken_bytes;
  const uint64_t bytes = std::max(after.bytes_read - before.bytes_read, expert_bytes);
  const double share =
      bytes == 0 ? 0 : static_cast<double>(expert_bytes) / static_cast<double>(bytes);
  const std::chrono::duration<double, std::milli> stalled = after.stalled - before.stalled;
  return {.row_count = row_count,
          .used_count = static_cast<uint32_t>(uses(after) - uses(before)),
          .waited_ms = share * stalled.count()};
}

}  // namespace

void ExpertMeter::Add(const ExpertUse& use) {
  MutexLock lock(mu_);
  uses_[count_++ % kKept] = use;
}

size_t ExpertMeter::Tell(uint64_t& known, Uses& uses) const {
  MutexLock lock(mu_);
  const uint64_t first = std::max(known, count_ - std::min<uint64_t>(count_, kKept));
  known = count_;
  for (uint64_t i = first; i < count_; ++i) uses[i - first] = uses_[i % kKept];
  return static_cast<size_t>(count_ - first);
}

void MeteredTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                        std::span<PassResult> results) {
  OtherTarget::Run(readings, passes, results);
  const StreamStats before = std::exchange(before_, stats_());
  if (!readings.empty() || passes.size() != 1 || !results[0].status.ok()) return;
  const auto row_count = static_cast<uint32_t>(1 + passes[0].nodes.size());
  meter_.Add(UseBetween(before, before_, row_count));
}

void MeteredController::Decided(const DraftView& draft) {
  ExpertMeter::Uses uses;
  const size_t count = meter_.Tell(known_, uses);
  for (const ExpertUse& use : std::span(uses).first(count)) {
    costs_.MeasuredExperts(use.row_count, use.used_count, use.waited_ms);
  }
  controller_->Decided(draft);
}

}  // namespace outrider
