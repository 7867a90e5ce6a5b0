#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

#include "common/base/status.h"

namespace outrider {

void CheckFailed(const char* file, int line, const char* expression, const char* why) {
  std::fprintf(stderr, "%s:%d: a bug in Outrider: %s does not hold: %s\n", file, line, expression,
               why);
  std::abort();
}

void CheckOkFailed(const char* file, int line, const absl::Status& status) {
  std::fprintf(stderr, "%s:%d: a bug in Outrider: unexpected error: %s\n", file, line,
               status.ToString().c_str());
  std::abort();
}

}  // namespace outrider
