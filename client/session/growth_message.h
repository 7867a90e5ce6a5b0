// Growth of a sketch as the wire has it (common/tokens/growth_bits.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/session/wire_ids.h"
#include "common/tokens/growth_bits.h"
#include "common/tokens/sketch.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class GrowthWriter {
 public:
  explicit GrowthWriter(uint32_t node_count_max) { nodes_.reserve(node_count_max); }

  // What was sent the other side knows no more.
  void BeginEpoch() { told_.Clear(); }

  // Fills nodes and first_id of `grow`, and gives the nodes their ids. They are nodes of `sketch`,
  // ids ascending; their parents were sent before, or are among them.
  void Write(std::span<const Sketch::Node> nodes, const Sketch& sketch, WireIds& ids,
             v1::Grow& grow);

 private:
  ToldTokens told_;
  std::vector<GrownNode> nodes_;  // scratch
};

}  // namespace outrider
