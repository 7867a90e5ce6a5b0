// Where in a list a name stands. The index holds views: the names must stay where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace outrider {

// Abseil's hash is seeded per process, so no file can bring names that all collide.
struct NameHash {
  size_t operator()(std::string_view name) const {
    return absl::HashOf(absl::string_view(name.data(), name.size()));
  }
};

using NameIndex = absl::flat_hash_map<std::string_view, uint32_t, NameHash>;

}  // namespace outrider
