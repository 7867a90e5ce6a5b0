// Copies from mapped files whose bytes may be gone by now: a file that another process has shortened,
// or whose disk fails, is a signal (SIGBUS) to whoever touches its pages, and the end of a process
// that is not prepared.
//
//   if (const auto lost = ReadMapped([&] { std::memcpy(to, from, count); })) ...   // at *lost
//
// Threads: any, each with reads of its own.
// Signals: the first read takes SIGBUS over. One that comes of anything else ends the process as before.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/functional/function_ref.h"

namespace outrider {

// `copy` may be left in the middle of any memory access, for good: it moves bytes, and owns nothing.
// Returns the address of one that could not be had; none: all could.
std::optional<const std::byte*> ReadMapped(absl::FunctionRef<void()> copy);

}  // namespace outrider
