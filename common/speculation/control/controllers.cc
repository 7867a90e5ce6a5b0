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
    // A verdict of a target on flash is awaited: a tree that is grown in its light is better, and
    // growing it takes a hundredth of the pass.
    PolicyOptions grown = options;
    if (options.kind == PolicyKind::kOurs && setup.target_streams)
      grown.kind = PolicyKind::kAwaited;
    return std::make_unique<SizedController>(MakePolicy(grown), setup);
  }
  return std::make_unique<FixedController>(
      MakePolicy(options), setup.target_is_here ? Placement::kLocal : Placement::kSplit);
}

}  // namespace outrider
