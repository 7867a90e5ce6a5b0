// The one place where what libtorch throws becomes a Status.
//
//   return CatchTorch("model.gguf", [&] { return Decode(tensor, device); });
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "absl/status/status.h"

namespace outrider {

// `error` is what was caught. ResourceExhausted when memory ran out, on the machine or on the GPU;
// anything else is FailedPrecondition: the device asked for is not there, or not what it was.
absl::Status TorchStatus(const std::exception& error, std::string_view context);

// What `body` returns, which is a Status or a StatusOr, or the status of what it throws.
template <typename Body>
auto CatchTorch(std::string_view context, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    return TorchStatus(error, context);
  }
}

}  // namespace outrider
