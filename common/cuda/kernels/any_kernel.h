// Every kernel but the products: what a queue of a device runs, each over the grid that is said
// where it is defined. A body says by what name messages know it.
#pragma once

#include <string_view>
#include <variant>

#include "common/cuda/kernels/attend_rows.h"
#include "common/cuda/kernels/best_of_rows.h"
#include "common/cuda/kernels/expert_rows.h"
#include "common/cuda/kernels/norm_rows.h"
#include "common/cuda/kernels/quantize_rows.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/kernels/shortlist_rows.h"

namespace outrider::gpu {

using AnyKernel = std::variant<EmbedRows, NormRows, QuantizeRows, PlaceHeads, AttendRows, GateRows,
                               CopySlots, CapRows, BestOfRows, RouteRows, GroupChoices, GatherRows,
                               SumExperts, RaceRows, ShortlistRows>;

inline std::string_view NameOf(const AnyKernel& kernel) {
  return std::visit([](const auto& body) { return body.kName; }, kernel);
}

}  // namespace outrider::gpu
