#include "common/engine/engine.h"

#include <algorithm>
#include <limits>

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

absl::StatusOr<uint32_t> CountPages(const EngineOptions& options, uint64_t page_bytes) {
  const uint64_t for_nodes = PagesFor(options.node_count_max);
  const uint64_t least = 1 + for_nodes;
  const uint64_t pages = options.kv_bytes > 0 ? options.kv_bytes / page_bytes
                                              : options.sequence_count_max *
                                                    (PagesFor(options.context_length) + for_nodes);
  if (pages < least) {
    return InvalidArgument("a KV cache of ", options.kv_bytes, " bytes is too small; the least is ",
                           least * page_bytes);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(pages, std::numeric_limits<uint32_t>::max()));
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
