// What a pass of a target on flash reads, by its rows: the same for any, but for experts, of which each
// row brings some of its own (speculation/costs/expert_price.h).
#pragma once

#include <cstdint>

#include "common/speculation/costs/expert_price.h"

namespace outrider {

struct PassReads {
  uint64_t row_bytes = 0;     // of a pass of one row
  uint64_t expert_bytes = 0;  // of those, for its experts
  ExpertPrice::Experts experts = {};

  double Bytes(uint32_t row_count) const {
    const auto one_row = static_cast<double>(row_bytes);
    if (expert_bytes == 0) return one_row;
    const double times = ExpertPrice::Together(experts, row_count) / experts.used_count;
    return one_row + static_cast<double>(expert_bytes) * (times - 1);
  }
};

}  // namespace outrider
