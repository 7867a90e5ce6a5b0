// Passes of a model with experts on flash, and room for some of them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace outrider {

constexpr uint32_t kPromptLength = 64;

struct Settings {
  std::string model;
  std::string text;
  double share = 0.5;
  uint32_t rows = 1;
  uint32_t rounds = 5;
  float agreement = 0.3f;
  std::string way = {};  // empty: all of them
};

// Turn by turn in every way; prints a table.
absl::Status RunPasses(const Settings& settings);

}  // namespace outrider
