// Routes of trained models, replayed on a cache of experts without reading anything.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace outrider {

// Of a file in "route_trace v1"; prints a table. InvalidArgument for any other file.
absl::Status ReplayRoutes(const std::string& path);

}  // namespace outrider
