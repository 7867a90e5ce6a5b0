// What rows bring of experts that come from flash, and so what a row more is waited for.
//
// A dense target reads the same whatever rows a pass has. Of one with experts every row chooses its
// own; those that no other row of the pass has chosen are its alone, and where they are not in memory
// they are read for it. So a row has a price from the first pass on, before passes of different sizes
// have told one (row_price.h):
//
//   u(n) = min(k n^a, E (1 - (1 - k / E)^n))         experts that n rows use together; k: one row
//   price of the last row = (u(n) - u(n - 1)) w      w: what was waited for an expert that is used
//
// k n^a is how rows of one text agree. Of three trained models whose routes were recorded a is 0.62 to
// 0.70 where 6 of 128 are used, and 0.74 to 0.86 where 2 are, from 16 rows down to 2; every pass of
// several rows tells it. The other is what rows use that choose by chance, and less where experts are
// few (2 of 8). For who is in memory nobody waits, so w falls while a cache fills.
//
// What rows take besides, of products and of what is in memory, is no part of it.
//
// A function of what it was told; no allocation.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/recent_median.h"

namespace outrider {

class ExpertPrice {
 public:
  // Of all layers together.
  struct Experts {
    uint32_t count = 0;       // E. None: the target has none, or they do not come from flash
    uint32_t used_count = 0;  // k

    bool operator==(const Experts&) const = default;
  };

  static constexpr double kAgreement = 0.67;  // a, until passes have told

  // u(n); n is 1 at the least.
  static double Together(const Experts& experts, double row_count, double agreement = kAgreement);

  explicit ExpertPrice(const Experts& experts) : experts_(experts) {}

  // A pass of so many rows has used so many experts of all layers, and waited so long for those that
  // had to be read.
  void Add(uint32_t row_count, uint32_t used_count, double waited_ms);

  // What a pass of so many rows waits for experts; none: no pass has told.
  std::optional<double> WaitMs(uint32_t row_count) const;
  // And for those that its last row alone brings, of two rows at the least.
  std::optional<double> RowMs(uint32_t row_count) const;

 private:
  Experts experts_;
  RecentMean agreement_;
  RecentMedian<9> wait_ms_;  // of an expert that is used: w
};

}  // namespace outrider
