// The two JSON texts of safetensors, read event by event: nothing is kept that the format does not
// define, a key given twice is seen, and depth costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

// One entry of the header, as it is spelled: types are right, values are not yet checked.
struct SafetensorsHeaderEntry {
  std::string name;
  std::string dtype = {};
  std::vector<uint64_t> shape = {};
  uint64_t begin = 0;  // data_offsets, counted from the end of the header
  uint64_t end = 0;
};

// In file order, __metadata__ checked and left out. Errors start with `name`.
absl::StatusOr<std::vector<SafetensorsHeaderEntry>> ReadSafetensorsHeader(std::string_view json,
                                                                          const std::string& name);

}  // namespace outrider
