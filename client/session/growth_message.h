// Growth of a sketch as the wire has it (common/tokens/growth_bits.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/session/wire_ids.h"
#include "common/tokens/growth_bits.h"
#include "common/tokens/sketch.h"
#include "common/verification/wire_padding.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// So many nodes that a message of them is no larger than a frame, if that holds all else a reply has
// to say: a sketch that is sent anew is several frames then, not one of another size. A node takes two
// bytes or three (growth_bits.h), and six where ids lie far apart.
constexpr uint32_t GrowthNodesFor(uint32_t frame_bytes) {
  constexpr uint32_t kNodeBytes = 6;
  constexpr uint32_t kRestBytes = 46;  // of the message, and what padding has at least
  return frame_bytes < kReplyFrameBytes ? UINT32_MAX : (frame_bytes - kRestBytes) / kNodeBytes;
}

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
