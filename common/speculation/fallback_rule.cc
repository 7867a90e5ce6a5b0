#include "common/speculation/fallback_rule.h"

#include <cmath>

#include "common/base/check.h"

namespace outrider {

void FallbackRule::Verified(double tree_confidence, uint32_t all, uint32_t correct) {
  OUTRIDER_CHECK(all > 0 && correct <= all,
                 "a branch has tokens, and no more right than there are");
  if (correct == all) {
    alpha_ *= 0.5;
  } else {
    alpha_ /= std::pow(tree_confidence, static_cast<double>(all - correct) / all);
  }
}

}  // namespace outrider
