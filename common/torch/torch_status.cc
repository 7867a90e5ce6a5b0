#include "common/torch/torch_status.h"

#include <c10/util/Exception.h>

#include "common/base/status.h"

namespace outrider {
namespace {

// libtorch appends where it happened and a backtrace, a line each; the first says what did.
std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

absl::Status TorchStatus(const std::exception& error, std::string_view context) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view line =
      FirstLine(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
  // The allocator of the CPU throws an error of the general kind.
  const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                             dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                             line.find("can't allocate memory") != std::string_view::npos;
  if (out_of_memory) return ResourceExhausted(context, ": no memory: ", line);
  return FailedPrecondition(context, ": libtorch: ", line);
}

}  // namespace outrider
