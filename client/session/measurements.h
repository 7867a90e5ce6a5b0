// Takes the times of a session, for its cost model.
//
// The device sees when verdicts come; the verifier says, in turns, how long the pass took and how
// long ago the newest node came that it had seen. What is left since that node was sent is the
// round trip, however many passes were under way meanwhile.
//
// Threads: as a vector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/speculation/costs/cost_model.h"
#include "common/tokens/sketch.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Measurements {
 public:
  // Of all batches so far, and of the passes whose time was told, in milliseconds. What a pass was
  // predicted to take is what the costs said just before its time was known.
  struct Totals {
    uint64_t timed_passes = 0;
    double pass_ms = 0;
    double predicted_ms = 0;
    double missed_ms = 0;  // what predictions were off by, either way
    double draft_ms = 0;
  };

  // `costs` must outlive it.
  explicit Measurements(CostModel& costs) : costs_(costs) {}

  // An Open or Resume was answered.
  void Attached(MonotonicTime asked_at, MonotonicTime now);
  // A reply begins, or an epoch: ids on the wire begin anew, and the next verdict has none before
  // it.
  void Restart();
  // Growth was handed to the stream, up to this id on the wire.
  void Sent(NodeId last, MonotonicTime now);
  // A verdict that commits so many tokens.
  void Decided(const v1::Verdict& verdict, size_t token_count, MonotonicTime now);

  // One that has waited for its target tells no price.
  void Drafted(size_t node_count, MonotonicTime began, MonotonicTime now, bool has_waited);

  const Totals& totals() const { return totals_; }

 private:
  struct Growth {
    NodeId last = Sketch::kRoot;
    MonotonicTime at = {};
  };

  void Passed(const PassShape& shape, double ms);
  std::optional<MonotonicTime> SentAt(NodeId node) const;

  CostModel& costs_;
  Totals totals_;
  std::optional<MonotonicTime> decided_at_;  // the verdict before
  std::array<Growth, 64> sent_;              // the newest, in a ring
  size_t sent_count_ = 0;
};

}  // namespace outrider
