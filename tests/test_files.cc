#include "tests/test_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace outrider {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string TestFile(const std::string& name) {
  return std::string(OUTRIDER_TEST_DATA_DIR) + "/" + name;
}

std::string ExternalFile(const std::string& name) {
  const char* const directory = std::getenv("OUTRIDER_TEST_DATA");
  return std::string(directory != nullptr ? directory : OUTRIDER_EXTERNAL_DATA_DIR) + "/" + name;
}

}  // namespace outrider
