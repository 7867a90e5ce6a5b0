// How many drafted nodes a pass is to take: R.
//
// A node more is expected to commit w tokens, w being the chance that the text passes it, and makes
// the pass a row longer, which takes b. So it belongs to the pass while it brings text faster than
// passes have been bringing it,
//
//   w(k) / b  >  v         v: tokens of a pass over its time, b: the price of a row (row_price.h)
//
// where w(k) is what the k-th best node of those the target had has been worth of late, and of a size
// the mean of those that it adds to the one before. At the k where that ends a pass has most tokens
// for its time. What no draft has had nodes for is supposed to fall on as what is known has fallen,
// for one size: then it is seen. What goes by between passes is no part of v:
// a node that is left out is still in the sketch when the next pass begins, so a link and a draft
// are waited for as often whatever R is.
//
// Where draft and target take turns nothing is drafted beside a pass, and growth ends where a pass of R nodes has no room for
// more. Of what it would have gone on to draft for a larger one, w is reckoned from the leaves that there are:
// the nodes that were drafted besides are siblings that nobody wanted, and say little of it.
//
// What a draft says of w is put right by what has come of it: drafted tokens that were committed,
// over those that the passes promised.
//
// R is one of a few sizes, two an octave, and moves by one at a time: up when the next rows are
// worth kUp of what they cost, down when the last ones are worth less than kDown. Theirs is the price of that step where
// passes have told it: rows get dearer where a tile of them is full. Between the two it
// stands still, and what that loses is less than a few percent of what a few rows cost. Both are below
// 1 because a draft that is right stays right for a while: what is far below the root is passed more
// often than the chances above it say, multiplied (measured: 0.25 where they say 0.17).
//
// Where all passes have been of one size nothing tells what a row costs, and what is known of it may be of
// a busier hour: then some are smaller than those were, by half, or a quarter where they are large, or larger where they
// are small. Of a target that waits for flash every pass tells by itself (hidden_rows.h).
//
// A function of what it was told: no clock, no randomness, no allocation once its vector has grown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/recent_median.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class PassSize {
 public:
  // With the root whole blocks of rows, but for the smallest and 5: processors compute four, eight or sixteen
  // of them in about the time of one more than the block before.
  static constexpr std::array<uint32_t, 11> kSizes = {1, 2, 3, 5, 7, 11, 15, 23, 31, 47, 63};
  static constexpr double kUp = 0.9;
  static constexpr double kDown = 0.8;

  // Where it begins, for as long as nothing is known: a row costs little of a pass that has a
  // processor of its own, and much of one on cores that compute everything else.
  explicit PassSize(const ControlSetup& setup);

  // After a verdict, whose root has not moved yet.
  void Decided(const DraftView& draft);

  uint32_t nodes() const { return nodes_; }

 private:
  static constexpr size_t kFirst = 6;        // 15
  static constexpr size_t kFirstShared = 2;  // 3
  // Verdicts without a fresh price, from one pass of another size to the next. Of the first ones every
  // other has it, or every fourth where there is a price of before, since what they cost is little beside
  // a wrong size for long.
  static constexpr uint32_t kProbeEvery = 8;
  static constexpr uint32_t kProbesFirst = 10;
  static constexpr uint32_t kSmall = 3;
  static constexpr uint32_t kLargerThanSmall = 5;
  static constexpr uint32_t kLarge = 11;

  void Learn(const DraftView& draft);
  void AddShown(const DraftView& draft);
  void AddGrown(const DraftView& draft);
  static double TokensIn(double ms, const DraftView& draft);
  bool IsToProbe(const CostModel& costs);
  uint32_t Probed(const DraftView& draft) const;
  double Worth(size_t size) const;
  double Supposed(size_t size) const;
  double Truth(const CostModel& costs) const;
  double LeastWorth(size_t size, double share, const DraftView& draft) const;
  void Move(const DraftView& draft);

  const bool rows_are_hidden_;  // by flash, as far as is known
  size_t size_;
  uint32_t nodes_;
  uint32_t taken_ = 0;  // of the last pass
  uint32_t unpriced_ = 0;
  // By size: the chance that the text passes a node that this size has and the one before has not.
  std::array<RecentMean, kSizes.size()> worth_;
  RecentMean promised_;      // by the nodes that a pass took
  RecentMean continuation_;  // the chance of a best child, where its parent was chosen
  std::vector<double> best_child_;
  std::vector<double> paths_;
};

}  // namespace outrider
