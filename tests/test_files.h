// The files tests read: those beside the tests, and those whose licence keeps them out of the
// repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace outrider {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A path under tests/data.
inline std::string TestFile(const std::string& name) {
  return std::string(OUTRIDER_TEST_DATA_DIR) + "/" + name;
}

// A path under $OUTRIDER_TEST_DATA, or where developers keep such files beside the repository. It
// may not exist.
inline std::string ExternalFile(const std::string& name) {
  const char* directory = std::getenv("OUTRIDER_TEST_DATA");
  return std::string(directory != nullptr ? directory : OUTRIDER_EXTERNAL_DATA_DIR) + "/" + name;
}

}  // namespace outrider

// Skips the test that needs the external file at `path` when it is not there.
#define OUTRIDER_SKIP_WITHOUT(path)                                                     \
  do {                                                                                  \
    if (!std::filesystem::exists(path)) {                                               \
      GTEST_SKIP() << (path) << " is not there; set OUTRIDER_TEST_DATA to where it is"; \
    }                                                                                   \
  } while (false)
