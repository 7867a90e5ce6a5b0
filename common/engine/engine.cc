#include "common/engine/engine.h"

#include "common/base/check.h"
#include "common/base/quote.h"
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
  if (spec.hears_encoder() && options.encoder_length_max == 0) {
    return InvalidArgument("layers of ", spec.name,
                           " hear an encoder; say how many rows of it a sequence may hear");
  }
  if (!spec.hears_encoder() && options.encoder_length_max > 0) {
    return InvalidArgument("no layer of ", spec.name,
                           " hears an encoder; allow no rows of one, not ",
                           options.encoder_length_max);
  }
  if (options.context_length == 0) options.context_length = spec.context_length;
  return options;
}

EngineInfo InfoFor(const ModelSpec& spec, const EngineOptions& options, uint64_t content_hash,
                   std::string_view backend_class, std::string_view kv_type) {
  return {.model_name = Harmless(spec.name),
          .numerics_id = NumericsId::Of(spec, content_hash, backend_class, kv_type),
          .content_hash = content_hash,
          .vocabulary_size = spec.vocabulary_size,
          .context_length = options.context_length,
          .sequence_count_max = options.sequence_count_max,
          .node_count_max = options.node_count_max,
          .row_count_max = options.row_count_max,
          .encoder_length_max = options.encoder_length_max,
          .batch_invariant = true,
          .on_host_processor = true,
          .forks_share_pages = true};
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

uint32_t CountEncoderRows(std::span<const float> states, const ModelSpec& spec,
                          const EngineInfo& info) {
  const size_t count = states.size() / spec.embedding_length;
  OUTRIDER_CHECK(count > 0 && states.size() % spec.embedding_length == 0,
                 "an encoder says a row at least, and whole ones");
  OUTRIDER_CHECK(count <= info.encoder_length_max, "the caller knows how much may be heard");
  return static_cast<uint32_t>(count);
}

}  // namespace outrider
