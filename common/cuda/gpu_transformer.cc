#include "common/cuda/gpu_transformer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Floats of a row.
struct RowLengths {
  size_t query = 0, key = 0, value = 0, attended = 0;
};

RowLengths LengthsOf(const ModelSpec& spec) {
  RowLengths lengths;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& shape = *layer.attention();
    lengths.query = std::max(lengths.query, size_t{shape.head_count} * shape.key_length);
    lengths.key = std::max(lengths.key, size_t{shape.kv_head_count} * shape.key_length);
    lengths.value = std::max(lengths.value, size_t{shape.kv_head_count} * shape.value_length);
    lengths.attended = std::max(lengths.attended, size_t{shape.head_count} * shape.value_length);
  }
  return lengths;
}

gpu::PanelTable TableOf(const DeviceMatrix& matrix) {
  return {matrix.panels, matrix.panel_bytes, matrix.kind};
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuTransformer>> GpuTransformer::Create(
    const ModelSpec& spec, const DeviceWeights& weights, const MemoryLayout& layout,
    const SequenceLimits& limits, std::span<const float> rope_divisors,
    uint32_t logit_row_count_max, DeviceQueue& queue, ThreadPool& pool) {
  std::unique_ptr<GpuTransformer> made(
      new GpuTransformer(spec, weights, layout, logit_row_count_max, queue));
  OUTRIDER_ASSIGN_OR_RETURN(made->tables_,
                            RunTables::Create(spec, layout, limits, rope_divisors, queue, pool));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(limits.row_count_max));
  return made;
}

absl::Status GpuTransformer::TakeMemory(uint32_t row_count_max) {
  const RowLengths lengths = LengthsOf(spec_);
  const size_t rows = row_count_max, width = spec_.embedding_length;
  const size_t logits = size_t{logit_row_count_max_} * spec_.vocabulary_size;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {hidden_, rows * width * sizeof(float)},
      {normed_, rows * width * sizeof(float)},
      {part_, rows * width * sizeof(float)},
      {query_, rows * lengths.query * sizeof(float)},
      {key_, rows * lengths.key * sizeof(float)},
      {value_, rows * lengths.value * sizeof(float)},
      {attended_, rows * lengths.attended * sizeof(float)},
      {logits_, logits * sizeof(float)},
      {asked_, size_t{logit_row_count_max_} * sizeof(uint32_t)}};
  const std::string what = Concat("the rows of ", spec_.name);
  for (const auto& [buffer, bytes] : buffers) {
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue_, bytes, what));
  }
  const size_t elements =
      std::max(rows * lengths.attended, GpuFeedForward::ElementCountMax(spec_, row_count_max));
  OUTRIDER_ASSIGN_OR_RETURN(math_, GpuRowMath::Create(queue_, elements, what));
  OUTRIDER_ASSIGN_OR_RETURN(feed_forward_,
                            GpuFeedForward::Create(spec_, row_count_max, *math_, queue_));
  OUTRIDER_ASSIGN_OR_RETURN(shortlists_, GpuShortlists::Create(queue_, logit_row_count_max_,
                                                               spec_.vocabulary_size, what));
  hidden_here_.resize(rows * width);
  logits_here_.resize(logits);
  return absl::OkStatus();
}

absl::Status GpuTransformer::Forward(const Batch& batch, const Watch* watch) {
  row_count_ = batch.row_count();
  part_is_owed_ = false;
  tables_->Fill(batch);
  PutGiven(batch);
  bool is_watched = false;
  for (uint32_t layer = 0; watch != nullptr && layer < spec_.layer_count(); ++layer) {
    is_watched = is_watched || watch->wants(layer);
  }
  if (!is_watched && queue_.Replay(row_count_)) return absl::OkStatus();
  if (!is_watched) queue_.BeginRecording();
  Embed();
  for (uint32_t layer = 0; layer < spec_.layer_count(); ++layer) {
    Layer(layer);
    if (is_watched && watch->wants(layer)) OUTRIDER_RETURN_IF_ERROR(Show(layer, *watch));
  }
  AddPart();
  if (!is_watched) queue_.EndRecording(row_count_);
  return absl::OkStatus();
}

void GpuTransformer::Layer(uint32_t layer) {
  if (spec_.layers[layer].is_parallel) return PassParallel(layer);
  const DeviceLayer& weights = weights_.layer(layer);
  Attend(layer, Enter(weights.mixer_norms));
  Leave(weights.mixer_norms);
  FeedForward(layer, Enter(weights.feed_forward_norms));
  Leave(weights.feed_forward_norms);
}

// Both parts of a layer of the same rows: what attention makes of them is added first.
void GpuTransformer::PassParallel(uint32_t layer) {
  const float* const x = Enter(weights_.layer(layer).mixer_norms);
  OUTRIDER_CHECK(x != hidden_.As<float>(), "a parallel layer has a norm before it");
  Attend(layer, x);
  part_is_owed_ = true;
  AddPart();
  FeedForward(layer, x);
  part_is_owed_ = true;
}

// Rows that come with an embedding of their own.
void GpuTransformer::PutGiven(const Batch& batch) {
  const size_t row_bytes = spec_.embedding_length * sizeof(float);
  for (uint32_t i = 0; i < row_count_; ++i) {
    const Batch::Row& row = batch.rows()[i];
    if (row.embedding != nullptr) {
      queue_.Upload(hidden_.data() + i * row_bytes, row.embedding, row_bytes);
      continue;
    }
    OUTRIDER_CHECK(row.token >= 0 && static_cast<uint32_t>(row.token) < spec_.vocabulary_size,
                   "tokens are checked where they enter");
  }
}

void GpuTransformer::Embed() {
  queue_.Run(gpu::EmbedRows{.tokens = TableOf(weights_.embeddings()),
                            .positions = TableOf(weights_.positions()),
                            .token = tables_->tokens(),
                            .position = tables_->positions(),
                            .out = hidden_.As<float>(),
                            .length = spec_.embedding_length,
                            .scale = spec_.embedding_scale},
             row_count_, 1);
}

// What a part of a layer gets: the residual stream, with what the part before gave, normed where
// the part has a norm before it.
const float* GpuTransformer::Enter(const DevicePartNorms& norms) {
  if (norms.before.weight == nullptr) {
    AddPart();
    return hidden_.As<float>();
  }
  queue_.Run(gpu::NormRows{.stream = hidden_.As<float>(),
                           .part = part_is_owed_ ? part_.As<float>() : nullptr,
                           .weight = norms.before.weight,
                           .bias = norms.before.bias,
                           .out = normed_.As<float>(),
                           .which = nullptr,
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon,
                           .scale = spec_.residual_scale},
             row_count_, 1);
  part_is_owed_ = false;
  return normed_.As<float>();
}

// What a part of a layer gave is owed to the residual stream: the next norm adds it. The norms a
// layer may have after that are done here.
void GpuTransformer::Leave(const DevicePartNorms& norms) {
  gpu::NormRows norm = {.stream = part_.As<float>(),
                        .part = nullptr,
                        .weight = norms.after.weight,
                        .bias = norms.after.bias,
                        .out = part_.As<float>(),
                        .which = nullptr,
                        .length = spec_.embedding_length,
                        .epsilon = spec_.norm_epsilon,
                        .scale = spec_.residual_scale};
  if (norm.weight != nullptr) queue_.Run(norm, row_count_, 1);
  part_is_owed_ = true;
  if (norms.sum.weight == nullptr) return;
  norm.stream = norm.out = hidden_.As<float>();
  norm.part = part_.As<float>();
  norm.weight = norms.sum.weight;
  norm.bias = norms.sum.bias;
  queue_.Run(norm, row_count_, 1);
  part_is_owed_ = false;
}

void GpuTransformer::AddPart() {
  if (!part_is_owed_) return;
  part_is_owed_ = false;
  queue_.Run(gpu::NormRows{.stream = hidden_.As<float>(),
                           .part = part_.As<float>(),
                           .weight = nullptr,
                           .bias = nullptr,
                           .out = nullptr,
                           .which = nullptr,
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon,
                           .scale = spec_.residual_scale},
             row_count_, 1);
}

void GpuTransformer::Attend(uint32_t layer, const float* x) {
  const AttentionSpec& shape = *spec_.layers[layer].attention();
  const DeviceLayer& weights = weights_.layer(layer);
  const HeadCells& cells = layout_.attention(layer);
  const RunTables::GroupTables rows = tables_->group(cells.group);
  const RunTables::Angles angles = tables_->angles(layer);
  float* const query = query_.As<float>();
  float* const key = key_.As<float>();
  float* const value = value_.As<float>();
  if (shape.cells_of) {
    math_->Multiply(x, row_count_, spec_.embedding_length, {{weights.query, query}});
  } else {
    math_->Multiply(x, row_count_, spec_.embedding_length,
                    {{weights.query, query}, {weights.key, key}, {weights.value, value}});
    NormHeads(weights.key_norm, key, shape.kv_head_count * shape.key_length);
  }
  NormHeads(weights.query_norm, query, shape.head_count * shape.key_length);
  const gpu::PlaceHeads place = {.query = query,
                                 .key = shape.cells_of ? nullptr : key,
                                 .value = value,
                                 .cosines = angles.cosines,
                                 .sines = angles.sines,
                                 .places = rows.places,
                                 .head_count = shape.head_count,
                                 .kv_head_count = shape.kv_head_count,
                                 .key_length = shape.key_length,
                                 .value_length = shape.value_length,
                                 .pair_count = angles.pair_count,
                                 .interleaved = shape.rope.style == RopeStyle::kInterleaved,
                                 .keys_at = cells.keys_at(0),
                                 .values_at = cells.values_at(0),
                                 .slot_count = kPageTokens};
  queue_.Run(place, row_count_, place.grid_y());
  // Now every row's keys are where the rows below it look for them.
  queue_.Run(gpu::AttendRows{.query = query,
                             .out = attended_.As<float>(),
                             .seen = rows.seen,
                             .chunk_runs = tables_->chunk_runs(),
                             .runs = tables_->runs(),
                             .head_count = shape.head_count,
                             .kv_head_count = shape.kv_head_count,
                             .key_length = shape.key_length,
                             .value_length = shape.value_length,
                             .scale = shape.scale,
                             .keys_at = cells.keys_at(0),
                             .values_at = cells.values_at(0),
                             .slot_count = kPageTokens,
                             .soft_cap = shape.soft_cap.value_or(0.0f),
                             .sinks = weights.sinks},
             row_count_, shape.head_count);
  math_->Multiply(attended_.As<float>(), row_count_, shape.head_count * shape.value_length,
                  {{weights.output, part_.As<float>()}});
}

// A weight as long as one head norms each by itself, one as long as the row all of them together.
void GpuTransformer::NormHeads(const DeviceHeadNorm& norm, float* heads, uint32_t length) {
  if (norm.weight == nullptr) return;
  queue_.Run(gpu::NormRows{.stream = heads,
                           .part = nullptr,
                           .weight = norm.weight,
                           .bias = nullptr,
                           .out = heads,
                           .which = nullptr,
                           .length = norm.length,
                           .epsilon = spec_.norm_epsilon},
             row_count_ * (length / norm.length), 1);
}

void GpuTransformer::FeedForward(uint32_t layer, const float* x) {
  feed_forward_->Apply(spec_.layers[layer].feed_forward, weights_.layer(layer), x, row_count_,
                       part_.As<float>());
}

absl::Status GpuTransformer::Show(uint32_t layer, const Watch& watch) {
  AddPart();
  const std::span<float> hidden =
      std::span(hidden_here_).first(size_t{row_count_} * spec_.embedding_length);
  queue_.Download(hidden.data(), hidden_.data(), hidden.size_bytes());
  OUTRIDER_RETURN_IF_ERROR(queue_.Wait());
  watch.see(layer, hidden);
  return absl::OkStatus();
}

void GpuTransformer::Project(std::span<const uint32_t> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  projected_count_ = count;
  OUTRIDER_CHECK(count <= logit_row_count_max_, "logits are asked for band by band");
  queue_.Upload(asked_.data(), rows.data(), rows.size_bytes());
  queue_.Run(gpu::NormRows{.stream = hidden_.As<float>(),
                           .part = nullptr,
                           .weight = weights_.head_norm().weight,
                           .bias = weights_.head_norm().bias,
                           .out = normed_.As<float>(),
                           .which = asked_.As<uint32_t>(),
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon},
             count, 1);
  const DeviceLinear head = {.matrix = weights_.head()};
  math_->Multiply(normed_.As<float>(), count, spec_.embedding_length,
                  {{head, logits_.As<float>()}});
  if (spec_.logit_scale == 1.0f && !spec_.logit_soft_cap) return;
  const gpu::CapRows cap = {logits_.As<float>(), spec_.vocabulary_size, spec_.logit_scale,
                            spec_.logit_soft_cap.value_or(0.0f)};
  queue_.Run(cap, count, cap.grid_y());
}

absl::StatusOr<LogitRows> GpuTransformer::Logits() {
  const size_t bytes = size_t{projected_count_} * spec_.vocabulary_size * sizeof(float);
  queue_.Download(logits_here_.data(), logits_.data(), bytes);
  OUTRIDER_RETURN_IF_ERROR(queue_.Wait());
  return LogitRows{logits_here_.data(), spec_.vocabulary_size, projected_count_,
                   spec_.vocabulary_size};
}

}  // namespace outrider
