#include "common/speculation/policies/fallback_rule.h"

#include <cmath>

#include "common/base/check.h"

namespace outrider {

void FallbackRule::Verified(double tree_confidence, uint32_t all, uint32_t correct) {
  OUTRIDER_CHECK(all > 0 && correct <= all,
                 "a branch has tokens, and no more right than there are");
  if (is_fixed_) return;
  // T_c is below 1, so the quotient raises alpha: by the less, the more was right.
  if (correct == all) {
    alpha_ *= 0.5;
  } else {
    alpha_ /= std::pow(tree_confidence, static_cast<double>(all - correct) / all);
  }
}

}  // namespace outrider
