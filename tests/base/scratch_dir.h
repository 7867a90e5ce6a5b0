// A fresh directory for one test's files, removed with all that is in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "common/base/check.h"

namespace outrider {

class ScratchDir {
 public:
  explicit ScratchDir(const std::string& parent = std::filesystem::temp_directory_path().string())
      : path_(parent + "/outrider_test.XXXXXX") {
    OUTRIDER_CHECK(mkdtemp(path_.data()) != nullptr, "the tests need a directory to write in");
  }
  ~ScratchDir() { std::filesystem::remove_all(path_); }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

  std::string Write(std::string_view name, std::string_view contents) const {
    std::ofstream(File(name), std::ios::binary)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return File(name);
  }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::string path_;
};

inline std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace outrider
