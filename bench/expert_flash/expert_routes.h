// Which experts passes wanted, and how often the EdgeMoE paper's profile would have named them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/weights/weight_store.h"

namespace outrider {

// The experts that a pass, or a token, wanted of each layer.
using Route = std::vector<std::vector<uint32_t>>;

// One after the other.
std::vector<ExpertKey> UsesOf(std::span<const Route> routes);

// How often the profile (experts of the two layers before) names the experts of a layer: learnt on the
// first half, tried on the second.
double ProfileShareRight(std::span<const Route> routes, uint32_t expert_count);

}  // namespace outrider
