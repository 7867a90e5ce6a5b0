// The files tests read: those beside the tests, and those whose licence keeps them out of the
// repository.
#pragma once

#include <filesystem>
#include <string>

namespace outrider {

std::string ReadFile(const std::string& path);

// A path under tests/data.
std::string TestFile(const std::string& name);

// A path under $OUTRIDER_TEST_DATA, or where developers keep such files beside the repository. It
// may not exist.
std::string ExternalFile(const std::string& name);

}  // namespace outrider

// Skips the test that needs the external file at `path` when it is not there.
#define OUTRIDER_SKIP_WITHOUT(path)                                                     \
  do {                                                                                  \
    if (!std::filesystem::exists(path)) {                                               \
      GTEST_SKIP() << (path) << " is not there; set OUTRIDER_TEST_DATA to where it is"; \
    }                                                                                   \
  } while (false)
