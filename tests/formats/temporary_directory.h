// A directory of its own for one test, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"
#include "gtest/gtest.h"

namespace outrider {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(testing::TempDir() + "outrider.XXXXXX") {
    OUTRIDER_CHECK(mkdtemp(path_.data()) != nullptr, "the test directory is writable");
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace outrider
