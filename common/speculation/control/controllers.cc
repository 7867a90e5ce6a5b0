#include "common/speculation/control/controllers.h"

#include "common/speculation/control/auto_controller.h"
#include "common/speculation/control/fixed_controller.h"

namespace outrider {

std::unique_ptr<Controller> MakeController(const PolicyOptions& options,
                                           const ControlSetup& setup) {
  if (options.kind == PolicyKind::kAuto) return std::make_unique<AutoController>(setup);
  return std::make_unique<FixedController>(
      MakePolicy(options), setup.target_is_here ? Placement::kLocal : Placement::kSplit);
}

}  // namespace outrider
