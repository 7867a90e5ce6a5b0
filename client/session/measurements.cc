#include "client/session/measurements.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

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

void Measurements::Drafted(size_t node_count, MonotonicTime began, MonotonicTime now,
                           bool has_waited) {
  const double ms = Milliseconds(now - began);
  if (!has_waited) costs_.MeasuredDraft(static_cast<uint32_t>(node_count), ms);
  totals_.draft_ms += ms;
}

void Measurements::Decided(const v1::Verdict& verdict, size_t token_count, MonotonicTime now) {
  const std::optional<MonotonicTime> before = std::exchange(decided_at_, now);
  if (before) {
    costs_.MeasuredVerdict(static_cast<uint32_t>(token_count), Milliseconds(now - *before));
  }
  // How many of the nodes were leaves it does not say; all of them is the bound.
  const PassShape shape = {verdict.nodes(), verdict.nodes()};
  if (verdict.pass_us() > 0) Passed(shape, verdict.pass_us() / 1e3);
  costs_.SetLeastChance(std::min(verdict.least_chance(), 100U) / 100.0);

  const std::optional<MonotonicTime> sent_at = SentAt(verdict.seen());
  if (!sent_at || verdict.since_seen_us() == 0) return;
  const double since_seen_ms = verdict.since_seen_us() / 1e3;
  const double round_trip_ms = Milliseconds(now - *sent_at) - since_seen_ms;
  if (round_trip_ms > 0) costs_.MeasuredRoundTrip(round_trip_ms);
  if (!before) return;
  // The root was known when the verdict before this one left. Of the time since then, or since the
  // growth came if that was later, the pass took its share, and stood in the queue for the rest.
  const double wanted_ms = std::min(Milliseconds(now - *before), since_seen_ms);
  costs_.MeasuredQueue(std::max(0.0, wanted_ms - costs_.PassMs(shape)));
}

void Measurements::Passed(const PassShape& shape, double ms) {
  const double predicted_ms = costs_.PassMs(shape);
  ++totals_.timed_passes;
  totals_.pass_ms += ms;
  totals_.predicted_ms += predicted_ms;
  totals_.missed_ms += std::abs(ms - predicted_ms);
  costs_.MeasuredPass(shape, ms);
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
