// A check of our own reasoning. Nothing a user, a file or the network does may make one fail; those
// get a Status.
//
//   OUTRIDER_CHECK(row_count <= capacity_, "the scheduler admits no more rows than a batch holds");
//
// Stays on in release builds: a wrong token is worse than a stopped process.
#pragma once

#include "absl/status/status.h"

namespace outrider {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression, const char* why);
[[noreturn]] void CheckOkFailed(const char* file, int line, const absl::Status& status);

}  // namespace outrider

#define OUTRIDER_CHECK(condition, why)                 \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::outrider::CheckFailed(__FILE__, __LINE__, #condition, why))

#define OUTRIDER_CHECK_OK(expression)                                 \
  do {                                                                \
    const absl::Status outrider_status = (expression);                \
    if (!outrider_status.ok()) {                                      \
      ::outrider::CheckOkFailed(__FILE__, __LINE__, outrider_status); \
    }                                                                 \
  } while (false)
