#include "common/engine/engine.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/sequence_table.h"

namespace outrider {

absl::StatusOr<EngineOptions> CheckOptions(const ModelSpec& spec, EngineOptions options) {
  if (options.context_length > spec.context_length) {
    return InvalidArgument("a context of ", options.context_length, " tokens is more than the ",
                           spec.context_length, " ", spec.name, " was made for; ask for ",
                           spec.context_length, " at most");
  }
  if (options.sequence_count_max == 0 || options.sequence_count_max > kSequencesMax) {
    return InvalidArgument("an engine holds 1 to ", kSequencesMax, " sequences, not ",
                           options.sequence_count_max);
  }
  if (options.row_count_max == 0) {
    return InvalidArgument("an engine that runs no row computes nothing; allow one at least");
  }
  if (std::ranges::any_of(
          spec.layers, [](const LayerSpec& layer) { return layer.cross_attention.has_value(); })) {
    return Unimplemented("no engine can be told yet what an encoder says to ", spec.name);
  }
  if (options.context_length == 0) options.context_length = spec.context_length;
  return options;
}

void CheckRows(const RunPart& part, const ModelSpec& spec) {
  OUTRIDER_CHECK(part.positions.empty() || part.positions.size() == part.row_count(),
                 "positions come for every row");
  OUTRIDER_CHECK(part.embeddings.empty() || part.embeddings.size() == part.row_count(),
                 "embeddings come for every row");
  if (!spec.learned_positions) return;
  for (const RotaryPosition& position : part.positions) {
    OUTRIDER_CHECK(position.at[0] < spec.context_length, "a learned position is in its table");
  }
}

}  // namespace outrider
