// After which layers exits stand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

// Up to five, evenly between half and nine tenths of the depth: before, an exit knows too little to
// be worth its time (FSD, figure 7); after, it comes too late. Layers count from 0. InvalidArgument
// when the model has a single layer.
absl::StatusOr<std::vector<uint32_t>> DefaultExitLayers(uint32_t layer_count);

// After every layer but the last, as FSD has them.
absl::StatusOr<std::vector<uint32_t>> EveryExitLayer(uint32_t layer_count);

// InvalidArgument unless they rise and end before the last layer.
absl::Status CheckExitLayers(std::span<const uint32_t> layers, uint32_t layer_count);

}  // namespace outrider
