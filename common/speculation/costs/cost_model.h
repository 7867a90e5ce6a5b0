// What things cost, from what they cost of late.
//
// The session tells it what it measures; policies and the controller ask. Times come from machines
// that stutter and over links that jitter, so one wild value moves nothing, and a lasting change is
// believed after a few: times are medians of the last few values, of passes and batches by shape.
//
// Times are milliseconds in doubles: they are multiplied, divided and compared with gains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/recent_median.h"
#include "common/speculation/costs/expert_price.h"
#include "common/speculation/costs/hidden_rows.h"
#include "common/speculation/costs/latency_profile.h"
#include "common/speculation/costs/row_price.h"

namespace outrider {

class CostModel {
 public:
  // What is believed until something is measured.
  struct Assumed {
    double round_trip_ms = 50;
    double pass_ms = 30;         // of the root alone
    double pass_node_ms = 0.2;   // of every node besides
    double draft_ms = 8;         // of one node
    double draft_node_ms = 0.2;  // of every node besides in the same batch
    double tokens_per_pass = 2;
    bool knows_rows = false;  // pass_node_ms was measured
    // What passes of these shapes took, where that is known better than by a line.
    std::vector<ShapeTime> passes = {};
    // Where those come from flash.
    ExpertPrice::Experts experts = {};
  };

  CostModel() : CostModel(Assumed()) {}
  explicit CostModel(const Assumed& assumed);

  // Up and down together, nothing else.
  void MeasuredRoundTrip(double ms) { round_trip_.Add(ms); }
  void MeasuredPass(const PassShape& shape, double ms);
  // The experts that a pass of so many rows has used, and its wait for those that were read.
  void MeasuredExperts(uint32_t row_count, uint32_t used_count, double waited_ms) {
    experts_.Add(row_count, used_count, waited_ms);
  }
  // What the last pass, if it was of so many rows, has waited for weights that come from flash whatever its rows.
  void MeasuredFlashWait(uint32_t row_count, double waited_ms);
  // What a pass waited for others, once its root was known and it had growth.
  void MeasuredQueue(double ms) { queue_.Add(ms); }
  // Of a batch; one has a node.
  void MeasuredDraft(uint32_t node_count, double ms);
  // A verdict: the tokens it committed, its next among them, and the time since the one before.
  void MeasuredVerdict(uint32_t token_count, double ms);

  double round_trip_ms() const;
  double queue_ms() const;
  // Of whatever shape.
  double recent_pass_ms() const;
  // Of the root alone: as such passes were, or others without what their rows cost, if that is known.
  double root_pass_ms() const;
  double tokens_per_pass() const;
  // What all goes into: how fast text has been coming.
  double tokens_per_ms() const;
  // All the text that verdicts brought, and the time that it took.
  struct Text {
    double tokens = 0;
    double ms = 0;
  };
  const Text& text() const { return text_; }
  double PassMs(const PassShape& shape) const { return passes_.Estimate(shape); }
  // By how much the last row of so many makes a pass longer, for the experts that it brings from flash. None: they
  // are all in memory, or nothing is known of waits for them.
  std::optional<double> ForeseenRowMs(uint32_t row_count) const;
  // What another row makes a pass longer, as it was when passes last told, or as it is foreseen where they
  // have not of late; none: neither is known.
  std::optional<double> row_ms() const;
  // The same of the rows that a pass of so many, two at the least, has more than one of the next size below.
  std::optional<double> row_ms(uint32_t rows) const;
  // Whether it is told by what passes wait for flash, without any of another size.
  bool foresees_rows() const { return hidden_rows_.RowMs(1, 2).has_value(); }
  // Whether passes of late tell. They do not where all are of one size.
  bool row_ms_is_fresh() const { return row_ms_is_fresh_; }
  double DraftMs(uint32_t node_count) const { return drafts_.Estimate({node_count - 1, 0}); }

  // What a node has to promise for a target that others share to take it, as its server says; 0: nothing.
  void SetLeastChance(double chance) { least_chance_ = chance; }
  double least_chance() const { return least_chance_; }

  // What another session of the same models at the same place may begin with.
  Assumed Learned() const;

 private:
  Assumed assumed_;  // the price of rows is the last that was measured
  bool row_ms_is_fresh_ = false;
  double least_chance_ = 0;
  RecentMedian<9> round_trip_;
  RecentMedian<9> queue_;
  RecentMedian<9> pass_;
  RecentMedian<9> root_pass_;
  RecentMedian<9> first_row_;  // of any pass
  RecentMean tokens_;
  RecentMean interval_;
  Text text_;
  LatencyProfile passes_;
  RowPrice row_price_;
  ExpertPrice experts_;
  HiddenRows hidden_rows_;
  uint32_t row_count_ = 1;   // of the last pass
  double last_pass_ms_ = 0;  // 0: there was none
  LatencyProfile drafts_;    // by the nodes besides the first
  RowPrice draft_price_;
};

}  // namespace outrider
