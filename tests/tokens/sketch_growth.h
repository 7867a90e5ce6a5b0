// Growth of a sketch, a node at a time, that cannot be refused.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/tokens/sketch.h"
#include "gtest/gtest.h"

namespace outrider {

inline Sketch::Fate Grow(Sketch& sketch, NodeId id, NodeId parent, TokenId token, uint32_t seen = 0,
                         uint32_t doubt = 1) {
  const absl::StatusOr<Sketch::Fate> fate =
      sketch.Grow({.id = id, .parent = parent, .token = token, .doubt = doubt}, seen);
  EXPECT_TRUE(fate.ok()) << fate.status();
  return fate.value_or(Sketch::Fate::kEvaporated);
}

}  // namespace outrider
