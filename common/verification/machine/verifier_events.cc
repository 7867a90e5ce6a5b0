#include "common/verification/machine/verifier_events.h"

#include <utility>

namespace outrider {

void Moment::Ask(VerifierEvents::Action action) const {
  actions->push_back(std::move(action));
}

}  // namespace outrider
