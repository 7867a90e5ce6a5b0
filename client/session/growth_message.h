// Growth of a sketch as the wire has it: a token and a link for each node.
#pragma once

#include <span>

#include "client/session/wire_ids.h"
#include "common/tokens/sketch.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// Fills tokens, links and first_id of `grow`, and gives the nodes their ids. They are nodes of
// `sketch`, ids ascending; their parents were sent before, or are among them.
void WriteGrowth(std::span<const Sketch::Node> nodes, const Sketch& sketch, WireIds& ids,
                 v1::Grow& grow);

}  // namespace outrider
