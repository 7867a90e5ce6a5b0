#include "common/engine/engine_memory.h"

#include <algorithm>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/exit_heads.h"
#include "common/kernels/attention.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/layers/expert_feed_forward.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/page_memory.h"

namespace outrider {
namespace {

// The longest of everything that has a row in some layer, in floats.
struct RowLengths {
  uint64_t queries = 0, keys = 0, values = 0, attended = 0;
  uint64_t turns = 0;  // of all ropes
  uint64_t feed_forward = 0;
  uint64_t beside = 0;  // what another part of a layer makes of the same rows
  uint64_t expert_count = 0, experts_used = 0, expert_length = 0;
  uint64_t inputs = 0;  // of a product

  explicit RowLengths(const ModelSpec& spec) : inputs(spec.embedding_length) {
    for (const LayerSpec& layer : spec.layers) {
      if (const AttentionSpec* const shape = layer.attention(); shape != nullptr) {
        AddHeads(shape->head_count, shape->kv_head_count, shape->key_length, shape->value_length);
        turns = std::max<uint64_t>(turns, shape->key_length);
      }
      if (const auto& shape = layer.cross_attention) {
        AddHeads(shape->head_count, shape->kv_head_count, shape->key_length, shape->value_length);
      }
      const FeedForwardSpec& shape = layer.feed_forward;
      feed_forward =
          std::max<uint64_t>({feed_forward, shape.length, shape.shared_length.value_or(0)});
      if (layer.is_parallel || shape.shared_length) beside = spec.embedding_length;
      if (!shape.router) continue;
      expert_count = std::max<uint64_t>(expert_count, shape.router->expert_count);
      experts_used = std::max<uint64_t>(experts_used, shape.router->used_count);
      expert_length = std::max<uint64_t>(expert_length, shape.length);
    }
    inputs = std::max({inputs, feed_forward, attended});
  }

  void AddHeads(uint64_t count, uint64_t kv_count, uint64_t key_length, uint64_t value_length) {
    queries = std::max(queries, count * key_length);
    keys = std::max(keys, kv_count * key_length);
    values = std::max(values, kv_count * value_length);
    attended = std::max(attended, count * value_length);
  }
};

// Rows begin on cache lines.
uint64_t RowsBytes(uint64_t row_count, uint64_t length) {
  return row_count * (length * sizeof(float) + kVectorAlignment);
}

// Rows as products want them, in either form: quants, scales and sums are less than two bytes of an
// element; and a panel for each thread.
uint64_t ProductBytes(uint64_t row_count, uint64_t inputs, uint32_t thread_count) {
  return 2 * row_count * (2 * inputs + kVectorAlignment) +
         thread_count * (kPanelOutputs + 2) * inputs * sizeof(float);
}

// What those who choose take for it.
uint64_t ChoosingBytes(uint64_t vocabulary_size, uint32_t thread_count) {
  constexpr uint64_t kTokenBytes = 40;  // a logit, a count, two candidates
  return thread_count * vocabulary_size * kTokenBytes;
}

}  // namespace

absl::StatusOr<EngineMemory> CpuEngineMemory(const ModelSpec& spec, const EngineOptions& asked,
                                             uint32_t thread_count) {
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions options, CheckOptions(spec, asked));
  const SequenceLimits limits = {.length_max = options.context_length,
                                 .node_count_max = options.node_count_max,
                                 .row_count_max = options.row_count_max};
  const MemoryLayout layout(spec, options.encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<uint32_t> page_counts,
      DividePages(layout, limits, options.sequence_count_max, options.kv_bytes));
  EngineMemory memory;
  for (uint32_t i = 0; i < layout.group_count(); ++i) {
    memory.kv_bytes += page_counts[i] * layout.page_bytes(i);
  }

  // The transformer.
  const RowLengths lengths(spec);
  const uint64_t rows = options.row_count_max;
  const uint64_t logit_rows = CpuEngine::LogitRows(options.row_count_max, options.node_count_max);
  const uint64_t product_rows = std::max<uint64_t>(
      std::max(rows, logit_rows), ExpertFeedForward::ProductRowsMax(spec, options.row_count_max));
  uint64_t& bytes = memory.scratch_bytes;
  bytes += RowsBytes(rows + product_rows, spec.embedding_length);
  bytes += RowsBytes(logit_rows, spec.vocabulary_size);
  for (const uint64_t length : {lengths.queries, lengths.keys, lengths.values, lengths.attended,
                                lengths.feed_forward, lengths.feed_forward, lengths.beside}) {
    bytes += RowsBytes(rows, length);
  }
  // Every rope has cosines and sines of its own; there are two of them at the most.
  bytes += 2 * RowsBytes(rows, lengths.turns);
  if (lengths.expert_count > 0) {
    bytes += RowsBytes(rows, lengths.expert_count);
    bytes += RowsBytes(rows * lengths.experts_used, spec.embedding_length);
    bytes += 2 * RowsBytes(product_rows, lengths.expert_length);
  }
  bytes += ProductBytes(product_rows, lengths.inputs, thread_count);

  // Where rows find their keys.
  const uint64_t runs_per_row = layout.cell_group_count() * (PagesFor(options.context_length) + 2 +
                                                             uint64_t{options.node_count_max});
  bytes += rows * runs_per_row * sizeof(KeyRun);
  bytes += ChoosingBytes(spec.vocabulary_size, thread_count);
  return memory;
}

uint64_t ExitsMemory(const TrainedExits& exits, const ModelSpec& spec, const EngineOptions& options,
                     uint64_t head_bytes, uint32_t thread_count) {
  const uint64_t width = spec.embedding_length;
  const uint64_t row_count = options.row_count_max;
  const uint64_t scored_rows = ExitHeads::ScoredRows(options.node_count_max);
  const uint64_t round_tokens = row_count + ExitOptions().candidate_count_max;
  const uint64_t frequent = exits.frequent_tokens.size();
  const uint64_t columns = frequent + round_tokens;
  uint64_t bytes = 0;
  uint64_t inputs = width;
  for (const TrainedExit& exit : exits.exits) {
    // In panels, and as floats while they are packed.
    bytes += 2 * kPanelOutputs * width * sizeof(float) + 2 * exit.rank * width * 2 * sizeof(float);
    inputs = std::max<uint64_t>(inputs, exit.rank);
  }
  // Rows of the head for the tokens that are scored, in whole panels of each kind.
  bytes += (columns + 2 * kPanelOutputs) * (head_bytes / spec.vocabulary_size + 1);
  bytes += RowsBytes(2 * scored_rows + 1, inputs) + RowsBytes(scored_rows, columns);
  bytes += ProductBytes(scored_rows, RowLengths(spec).inputs, thread_count);
  bytes += ChoosingBytes(spec.vocabulary_size, thread_count) + ChoosingBytes(columns, thread_count);
  bytes += row_count * ExitEvidence::kRankedMax * sizeof(Ranked);
  bytes += row_count * ExitHeads::kRowBytes;
  return bytes;
}

}  // namespace outrider
