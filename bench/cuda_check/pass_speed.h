// How long whole passes of a model take on the GPU, beside the time in which its weights are read;
// what five exits take of them, and when the first is heard.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace outrider {

absl::Status PrintPassSpeed(const std::string& path);

}  // namespace outrider
