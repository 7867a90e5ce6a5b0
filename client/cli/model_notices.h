// What a terminal is told of models before they run.
#pragma once

#include "client/device/device.h"

namespace outrider {

// To standard error, a line each: the notices of a device's target and draft
// (common/model/weights/model_notices.h), as far as they are files here.
void TellOfModels(const DeviceOptions& options);

}  // namespace outrider
