#include "common/speculation/control/controllers.h"

#include "common/speculation/control/auto_controller.h"
#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/control/sized_controller.h"

namespace outrider {

bool ChoosesPassSize(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kAuto:
    case PolicyKind::kOurs:
    case PolicyKind::kAwaited:
    case PolicyKind::kLever:
      return true;
    default:
      return false;
  }
}

std::unique_ptr<Controller> MakeController(const PolicyOptions& options,
                                           const ControlSetup& setup) {
  if (options.kind == PolicyKind::kAuto) return std::make_unique<AutoController>(setup);
  if (ChoosesPassSize(options.kind)) {
    return std::make_unique<SizedController>(MakePolicy(options), setup);
  }
  return std::make_unique<FixedController>(
      MakePolicy(options), setup.target_is_here ? Placement::kLocal : Placement::kSplit);
}

}  // namespace outrider
