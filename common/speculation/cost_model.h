// What things cost, from what they cost of late.
//
// The session tells it what it measures; policies and the controller ask. Times come from machines
// that stutter and from links that jitter, so one wild value moves nothing, and a lasting change is
// believed after a few: link, queue and yield are medians of the last few values, passes and
// batches a profile by shape (latency_profile.h).
//
// Times are in milliseconds, as doubles: they are multiplied, divided and compared with gains.
#pragma once

#include <cstdint>

#include "common/speculation/latency_profile.h"
#include "common/speculation/recent_median.h"

namespace outrider {

class CostModel {
 public:
  // What is assumed until it is measured.
  struct Assumed {
    double round_trip_ms = 50;
    double pass_ms = 30;        // of the root alone
    double pass_node_ms = 0.2;  // of every node besides
    double queue_ms = 0;
    double draft_ms = 8;         // of one node
    double draft_node_ms = 0.2;  // of every node besides in the same batch
    double tokens_per_pass = 2;
  };

  CostModel() : CostModel(Assumed()) {}
  explicit CostModel(const Assumed& assumed);

  // Up and down together, nothing else.
  void MeasuredRoundTrip(double ms) { round_trip_.Add(ms); }
  void MeasuredPass(const PassShape& shape, double ms) { passes_.Add(shape, ms); }
  // Between the root being known, or growth that it waited for arriving, and the pass beginning.
  void MeasuredQueue(double ms) { queue_.Add(ms); }
  void MeasuredDraft(uint32_t node_count, double ms) { drafts_.Add({node_count, 0}, ms); }
  // What a pass committed, its next among it.
  void MeasuredYield(uint32_t token_count) { yield_.Add(token_count); }

  double round_trip_ms() const { return round_trip_.Value(); }
  double queue_ms() const { return queue_.Value(); }
  double tokens_per_pass() const { return yield_.Value(); }
  double PassMs(const PassShape& shape) const { return passes_.Estimate(shape); }
  double DraftMs(uint32_t node_count) const { return drafts_.Estimate({node_count, 0}); }

 private:
  RecentMedian round_trip_;
  RecentMedian queue_;
  RecentMean yield_;
  LatencyProfile passes_;
  LatencyProfile drafts_;
};

}  // namespace outrider
