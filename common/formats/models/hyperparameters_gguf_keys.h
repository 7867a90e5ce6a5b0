// Which {arch}.* keys a GGUF file may have: a key that changes arithmetic is read, has the value that
// changes nothing, or is refused with what it means. A key that nobody here has heard of may change it.
// Private to this room.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/models/hyperparameters.h"

namespace outrider {

// Unimplemented names the key, its value, and what it would take; InvalidArgument a key of another kind
// than its number. `name` starts every message.
absl::Status CheckGgufKeys(const GgufFile& file, Architecture architecture,
                           const std::string& name);

}  // namespace outrider
