#include "common/cuda/gpu_transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider {
namespace {

// Floats of a row, and elements of the longest that is multiplied, and that comes of it.
struct RowLengths {
  size_t query = 0, key = 0, value = 0, attended = 0, fed = 0, beside = 0, inputs = 0, outputs = 0;
};

RowLengths LengthsOf(const ModelSpec& spec) {
  RowLengths lengths;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& shape = *layer.attention();
    lengths.query = std::max(lengths.query, size_t{shape.head_count} * shape.key_length);
    lengths.key = std::max(lengths.key, size_t{shape.kv_head_count} * shape.key_length);
    lengths.value = std::max(lengths.value, size_t{shape.kv_head_count} * shape.value_length);
    lengths.attended = std::max(lengths.attended, size_t{shape.head_count} * shape.value_length);
    const FeedForwardSpec& fed = layer.feed_forward;
    lengths.fed =
        std::max<size_t>(lengths.fed, fed.router ? fed.shared_length.value_or(0) : fed.length);
    if (fed.shared_length) lengths.beside = spec.embedding_length;
  }
  lengths.inputs = std::max({size_t{spec.embedding_length}, lengths.attended, lengths.fed});
  lengths.outputs = std::max({lengths.inputs, lengths.query, size_t{spec.vocabulary_size}});
  return lengths;
}

gpu::Gate GateOf(GateKind kind) {
  switch (kind) {
    case GateKind::kSiluGated:
      return gpu::Gate::kSiluGated;
    case GateKind::kGeluTanhGated:
      return gpu::Gate::kGeluTanhGated;
    case GateKind::kGeluTanh:
      return gpu::Gate::kGeluTanh;
    case GateKind::kClampedSiluGated:
      break;  // DeviceWeights::Check() has refused it
  }
  OUTRIDER_CHECK(false, "every gate is one of these");
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
      new GpuTransformer(spec, weights, layout, limits.row_count_max, logit_row_count_max, queue));
  OUTRIDER_CHECK(spec.layer_count() < 1u << 16,
                 "pieces of runs are told apart by two such numbers");
  OUTRIDER_ASSIGN_OR_RETURN(made->tables_,
                            RunTables::Create(spec, layout, limits, rope_divisors, queue, pool));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory());
  OUTRIDER_RETURN_IF_ERROR(made->MakeRoomForWatched(1));
  return made;
}

absl::Status GpuTransformer::TakeMemory() {
  const RowLengths lengths = LengthsOf(spec_);
  const size_t rows = row_count_max_, width = spec_.embedding_length;
  const size_t logits = size_t{logit_row_count_max_} * spec_.vocabulary_size;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {hidden_, rows * width * sizeof(float)},
      {normed_, rows * width * sizeof(float)},
      {part_, rows * width * sizeof(float)},
      {beside_, rows * lengths.beside * sizeof(float)},
      {query_, rows * lengths.query * sizeof(float)},
      {key_, rows * lengths.key * sizeof(float)},
      {value_, rows * lengths.value * sizeof(float)},
      {attended_, rows * lengths.attended * sizeof(float)},
      {gate_, rows * lengths.fed * sizeof(float)},
      {up_, rows * lengths.fed * sizeof(float)},
      {logits_, logits * sizeof(float)},
      {largest_, size_t{logit_row_count_max_} * sizeof(gpu::BestLogit)},
      {asked_, size_t{logit_row_count_max_} * sizeof(uint32_t)}};
  const std::string what = Concat("the rows of ", spec_.name);
  for (const auto& [buffer, bytes] : buffers) {
    if (bytes == 0) continue;  // what no layer has
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue_, bytes, what));
  }
  const size_t shared_outputs = weights_.HaveOwnBits() ? lengths.outputs : 0;
  OUTRIDER_ASSIGN_OR_RETURN(quants_,
                            RowQuants::Create(queue_, rows, lengths.inputs, shared_outputs, what));
  OUTRIDER_ASSIGN_OR_RETURN(experts_, GpuExperts::Create(spec_, row_count_max_, queue_));
  logits_here_.resize(logits);
  largest_here_.resize(logit_row_count_max_);
  return absl::OkStatus();
}

absl::Status GpuTransformer::MakeRoomForWatched(uint32_t layer_count) {
  const size_t bytes = size_t{row_count_max_} * spec_.embedding_length * sizeof(float);
  const std::string what = Concat("states of ", spec_.name, " on their way");
  while (slots_.size() < layer_count) {
    Slot slot;
    OUTRIDER_ASSIGN_OR_RETURN(slot.there, DeviceBuffer::Create(queue_, bytes, what));
    OUTRIDER_ASSIGN_OR_RETURN(slot.here, HostBuffer::Create(queue_, bytes, what));
    slots_.push_back(std::move(slot));
  }
  departures_.SetSlotCount(static_cast<uint32_t>(slots_.size()));
  return absl::OkStatus();
}

// --- a run ---

// Whatever is uploaded is so before the first layer: the driver may wait for all that was asked for
// before it takes memory that is not pinned.
absl::Status GpuTransformer::Forward(const Batch& batch, const Watch& watch,
                                     std::span<const uint32_t> rows) {
  row_count_ = batch.row_count();
  part_is_owed_ = false;
  is_watched_ = !watch.layers.empty();
  watch_ = watch;
  departures_.Begin();
  tables_->Fill(batch);
  PutGiven(batch);
  Ask(rows);
  span_is_open_ = false;
  OpenSpan();
  uint32_t first = 0;
  for (const WatchedLayer& watched : watch.layers) {
    RunLayers(first, watched.layer + 1);
    OUTRIDER_RETURN_IF_ERROR(SendStates(watched));
    first = watched.layer + 1;
  }
  RunLayers(first, spec_.layer_count());
  ProjectAsked();
  if (is_watched_) queue_.Mark(kAllAsked);
  return absl::OkStatus();
}

// A piece of a run. Later runs of as many rows replay it, where the same layers are watched.
void GpuTransformer::RunLayers(uint32_t first, uint32_t end) {
  if (first == end) return;
  const uint64_t piece = uint64_t{row_count_} << 32 | first << 16 | end;
  if (queue_.Replay(piece)) {
    ++work_.graph_hits;
    return;
  }
  ++work_.graph_misses;
  queue_.BeginRecording();
  if (first == 0) Embed();
  for (uint32_t layer = first; layer < end; ++layer) Layer(layer);
  AddPart();
  if (queue_.EndRecording(piece)) ++work_.graph_captures;
}

void GpuTransformer::Layer(uint32_t layer) {
  const DeviceLayer& weights = weights_.layer(layer);
  Attend(layer, Enter(weights.mixer_norms));
  Leave(weights.mixer_norms);
  FeedForward(layer, Enter(weights.feed_forward_norms));
  Leave(weights.feed_forward_norms);
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
  const gpu::EmbedRows embed = {.tokens = TableOf(weights_.embeddings()),
                                .positions = TableOf(weights_.positions()),
                                .token = tables_->tokens(),
                                .position = tables_->positions(),
                                .out = hidden_.As<float>(),
                                .length = spec_.embedding_length};
  queue_.Run(embed, row_count_, embed.grid_y());
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
                           .epsilon = spec_.norm_epsilon},
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
                        .epsilon = spec_.norm_epsilon};
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
                           .epsilon = spec_.norm_epsilon},
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
    Multiply(x, row_count_, spec_.embedding_length, {{weights.query, query}});
  } else {
    Multiply(x, row_count_, spec_.embedding_length,
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
                             .slot_count = kPageTokens},
             row_count_, shape.head_count);
  Multiply(attended_.As<float>(), row_count_, shape.head_count * shape.value_length,
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
  const FeedForwardSpec& shape = spec_.layers[layer].feed_forward;
  const DeviceLayer& weights = weights_.layer(layer);
  const gpu::Gate gate = GateOf(shape.gate);
  float* const part = part_.As<float>();
  if (!shape.router) return Feed(gate, shape.length, weights.feed_forward, x, part);
  const DeviceExperts& experts = weights.experts;
  Multiply(x, row_count_, spec_.embedding_length, {{experts.router, experts_->logits()}});
  float* const beside = shape.shared_length ? beside_.As<float>() : nullptr;
  if (beside != nullptr) Feed(gate, *shape.shared_length, experts.shared, x, beside);
  experts_->Apply(shape, gate, experts, {x, beside, row_count_, part});
}

void GpuTransformer::Feed(gpu::Gate gate, uint32_t length, const DeviceFeedForward& weights,
                          const float* x, float* out) {
  float* const gates = gate_.As<float>();
  float* const ups = up_.As<float>();
  if (gate == gpu::Gate::kGeluTanh) {
    Multiply(x, row_count_, spec_.embedding_length, {{weights.up, ups}});
  } else {
    Multiply(x, row_count_, spec_.embedding_length, {{weights.gate, gates}, {weights.up, ups}});
  }
  const gpu::GateRows gated = {gates, ups, length, gate};
  queue_.Run(gated, row_count_, gated.grid_y());
  Multiply(ups, row_count_, length, {{weights.down, out}});
}

// Rows are quantised once into whatever forms the matrices ask for; matrices of one type that follow
// one another are multiplied together.
void GpuTransformer::Multiply(const float* x, uint32_t row_count, uint32_t inputs,
                              std::initializer_list<Output> outputs) {
  for (const ActivationForm form :
       {ActivationForm::kFloat, ActivationForm::kInt8Per32, ActivationForm::kInt8Per256}) {
    const auto takes = [&](const Output& output) { return output.linear.matrix.form == form; };
    if (std::ranges::none_of(outputs, takes)) continue;
    const auto takes_terms = [&](const Output& output) {
      const DeviceMatrix& matrix = output.linear.matrix;
      return takes(output) && gpu::TakesTerms(matrix.kind, matrix.outputs, row_count);
    };
    gpu::GpuRows rows = quants_.Take(x, row_count, inputs, form);
    if (std::ranges::any_of(outputs, takes_terms)) quants_.Split(rows);
    gpu::JointProducts joint = {};
    gpu::PanelKind kind = {};
    const auto multiply = [&] {
      if (joint.count == 1) queue_.Multiply(joint.each[0], kind);
      if (joint.count > 1) queue_.Multiply(joint, kind);
      joint.count = 0;
    };
    for (const Output& output : outputs) {
      if (!takes(output)) continue;
      const DeviceMatrix& matrix = output.linear.matrix;
      OUTRIDER_CHECK(matrix.inputs == inputs, "rows are as long as the matrix has inputs");
      if (matrix.kind != kind || joint.count == gpu::JointProducts::kMax) multiply();
      kind = matrix.kind;
      joint.each[joint.count++] = {.panels = matrix.panels,
                                   .panel_bytes = matrix.panel_bytes,
                                   .outputs = matrix.outputs,
                                   .inputs = inputs,
                                   .bias = output.linear.bias,
                                   .x = rows,
                                   .out = output.out,
                                   .out_stride = matrix.outputs,
                                   .room = quants_.room()};
    }
    multiply();
  }
}

// --- what is seen between layers ---

// Nothing is owed to the residual stream after a piece of the run.
absl::Status GpuTransformer::SendStates(const WatchedLayer& watched) {
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t slot, departures_.NextSlot(watched.layer));
  Slot& by = slots_[slot];
  by.watched = watched;
  queue_.Mark(CopyBegins(slot));
  queue_.Run(gpu::NormRows{.stream = hidden_.As<float>(),
                           .part = nullptr,
                           .weight = nullptr,
                           .bias = nullptr,
                           .out = by.there.As<float>(),
                           .which = nullptr,
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon},
             row_count_, 1);
  queue_.Mark(CopyEnds(slot));
  if (watched.exit) {
    watch_.begin_exits();
    watch_.exits->Score(*watched.exit, slot, by.there.As<float>());
  }
  if (watched.comes_here) {
    queue_.Depart(slot, by.here.data(), by.there.data(),
                  size_t{row_count_} * spec_.embedding_length * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Status GpuTransformer::Await(uint32_t slot) {
  const WatchedLayer& watched = slots_[slot].watched;
  if (watched.exit) OUTRIDER_RETURN_IF_ERROR(watch_.exits->Await(slot));
  return watched.comes_here ? queue_.AwaitArrival(slot) : absl::OkStatus();
}

void GpuTransformer::See(uint32_t slot) {
  const WatchedLayer& watched = slots_[slot].watched;
  work_.exit_time += queue_.Between(CopyBegins(slot), CopyEnds(slot));
  if (watched.exit) work_.exit_side_time += watch_.exits->TimeOf(slot);
  std::span<const float> states;
  if (watched.comes_here) {
    states = {slots_[slot].here.As<float>(), size_t{row_count_} * spec_.embedding_length};
  }
  watch_.see(watched, slot, states);
}

absl::Status GpuTransformer::SeeWatched() {
  if (!is_watched_) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(departures_.SeeAll());
  queue_.Mark(kAllSeen);
  return absl::OkStatus();
}

// --- logits ---

void GpuTransformer::Project(std::span<const uint32_t> rows) {
  OpenSpan();
  Ask(rows);
  ProjectAsked();
}

void GpuTransformer::Ask(std::span<const uint32_t> rows) {
  asked_count_ = static_cast<uint32_t>(rows.size());
  OUTRIDER_CHECK(asked_count_ <= logit_row_count_max_, "logits are asked for band by band");
  if (!rows.empty()) queue_.Upload(asked_.data(), rows.data(), rows.size_bytes());
}

void GpuTransformer::ProjectAsked() {
  if (asked_count_ == 0) return;
  queue_.Run(gpu::NormRows{.stream = hidden_.As<float>(),
                           .part = nullptr,
                           .weight = weights_.head_norm().weight,
                           .bias = weights_.head_norm().bias,
                           .out = normed_.As<float>(),
                           .which = asked_.As<uint32_t>(),
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon},
             asked_count_, 1);
  const DeviceLinear head = {.matrix = weights_.head()};
  Multiply(normed_.As<float>(), asked_count_, spec_.embedding_length,
           {{head, logits_.As<float>()}});
}

absl::StatusOr<LogitRows> GpuTransformer::Logits() {
  const size_t bytes = size_t{asked_count_} * spec_.vocabulary_size * sizeof(float);
  OpenSpan();
  queue_.Download(logits_here_.data(), logits_.data(), bytes);
  OUTRIDER_RETURN_IF_ERROR(CloseSpan());
  return LogitRows{logits_here_.data(), spec_.vocabulary_size, asked_count_, spec_.vocabulary_size};
}

absl::StatusOr<std::span<const gpu::BestLogit>> GpuTransformer::LargestLogits() {
  queue_.Run(
      gpu::BestOfRows{logits_.As<float>(), largest_.As<gpu::BestLogit>(), spec_.vocabulary_size},
      asked_count_, 1);
  queue_.Download(largest_here_.data(), largest_.data(), asked_count_ * sizeof(gpu::BestLogit));
  OUTRIDER_RETURN_IF_ERROR(CloseSpan());
  return std::span<const gpu::BestLogit>(largest_here_).first(asked_count_);
}

absl::Status GpuTransformer::Finish() {
  return span_is_open_ ? CloseSpan() : queue_.Wait();
}

// --- the device's clock ---

void GpuTransformer::OpenSpan() {
  if (std::exchange(span_is_open_, true)) return;
  queue_.Mark(kBegin);
}

absl::Status GpuTransformer::CloseSpan() {
  span_is_open_ = false;
  queue_.Mark(kEnd);
  OUTRIDER_RETURN_IF_ERROR(queue_.Wait());
  work_.time += queue_.Between(kBegin, kEnd);
  // Where all was done that had been asked for, and the host was not through with what it saw, the
  // device has waited for it.
  if (std::exchange(is_watched_, false)) work_.exit_time += queue_.Between(kAllAsked, kAllSeen);
  return absl::OkStatus();
}

}  // namespace outrider
