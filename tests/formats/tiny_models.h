// The tiny models of tests/data/models, made by tests/golden/tiny_models.py.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/formats/models/model_file.h"
#include "gtest/gtest.h"
#include "tests/test_files.h"

namespace outrider {

inline std::string ModelDirectory(const std::string& model) {
  return TestFile("models/" + model);
}

// Fails the test, and returns null, when it does not open.
inline std::unique_ptr<ModelFile> OpenOrNull(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ModelFile>> model = ModelFile::Open(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

inline std::vector<std::byte> ReadAll(const ModelFile& model, const ModelTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  EXPECT_TRUE(model.ReadRows(tensor, 0, tensor.row_count(), bytes).ok()) << tensor.name;
  return bytes;
}

}  // namespace outrider
