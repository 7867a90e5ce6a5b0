#include "client/session/measurements.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

void Measurements::Attached(MonotonicTime asked_at, MonotonicTime now) {
  costs_.MeasuredRoundTrip(Milliseconds(now - asked_at));
  Restart();
}

void Measurements::Restart() {
  decided_at_.reset();
  sent_count_ = 0;
}

void Measurements::Sent(NodeId last, MonotonicTime now) {
  sent_[sent_count_++ % sent_.size()] = {last, now};
}

void Measurements::Drafted(size_t node_count, MonotonicTime now) {
  costs_.MeasuredDraft(static_cast<uint32_t>(node_count), Milliseconds(now - draft_began_));
}

void Measurements::Decided(const v1::Verdict& verdict, size_t token_count, MonotonicTime now) {
  if (decided_at_) {
    costs_.MeasuredVerdict(static_cast<uint32_t>(token_count), Milliseconds(now - *decided_at_));
  }
  decided_at_ = now;
  if (!verdict.has_times()) return;

  const v1::Times& times = verdict.times();
  const double pass_ms = times.pass_us() / 1e3;
  const double since_seen_ms = times.since_seen_us() / 1e3;
  double queue_ms = times.queue_us() / 1e3;
  if (const auto sent_at = SentAt(verdict.seen()); sent_at && times.since_seen_us() > 0) {
    const double round_trip_ms = Milliseconds(now - *sent_at) - since_seen_ms;
    if (round_trip_ms > 0) costs_.MeasuredRoundTrip(round_trip_ms);
    // Growth that it waited for is not its queue.
    queue_ms = std::clamp(since_seen_ms - pass_ms, 0.0, queue_ms);
  }
  costs_.MeasuredQueue(queue_ms);
  // How many of the nodes were leaves it does not say; all of them is the bound.
  costs_.MeasuredPass({times.nodes(), times.nodes()}, pass_ms);
}

// When the growth was sent that ended with this node or one after it.
std::optional<MonotonicTime> Measurements::SentAt(NodeId node) const {
  const size_t kept = std::min(sent_count_, sent_.size());
  const size_t oldest = sent_count_ - kept;
  for (size_t i = sent_count_; i-- > oldest;) {
    const Growth& growth = sent_[i % sent_.size()];
    if (growth.last == node) return growth.at;
    if (growth.last < node) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace outrider
