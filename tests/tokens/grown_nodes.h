// Growth, node by node.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/tokens/growth_bits.h"

namespace outrider {

// `told`: by growth of this epoch before it.
inline std::vector<GrownNode> NodesOf(std::string_view bytes, ToldTokens& told) {
  std::vector<GrownNode> nodes;
  GrowthReader reader(bytes);
  for (uint32_t i = 0; i < reader.node_count(); ++i) {
    const absl::StatusOr<GrownNode> node = reader.Next(told);
    OUTRIDER_CHECK(node.ok(), "a device writes whole nodes");
    nodes.push_back(*node);
  }
  OUTRIDER_CHECK(reader.End().ok(), "and nothing behind them");
  return nodes;
}

// The first of an epoch.
inline std::vector<GrownNode> NodesOf(std::string_view bytes) {
  ToldTokens told;
  return NodesOf(bytes, told);
}

}  // namespace outrider
