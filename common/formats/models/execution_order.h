// The order in which a pass needs a model's tensors: embeddings, block after block (encoder first),
// head. A file laid out so can be read front to back while the blocks before are being computed.
#pragma once

#include <span>
#include <vector>

#include "common/formats/models/model_file.h"

namespace outrider {

// The tensors sorted; unknown names go last, in the order given. Stable.
std::vector<const ModelTensor*> ExecutionOrder(std::span<const ModelTensor> tensors);

}  // namespace outrider
