// Studies of many points, each a simulation or many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace outrider {

// body(i) of every point, several at a time on `thread_count` threads; standard error says how many are
// done. The first error, in the order of the points.
absl::Status ForEachPoint(std::string_view title, size_t count, uint32_t thread_count,
                          const std::function<absl::Status(size_t point)>& body);

// As many threads as there are processors.
uint32_t ProcessorCount();

}  // namespace outrider
