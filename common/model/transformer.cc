#include "common/model/transformer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/kernels/attention.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

// So few rows are done sooner than other threads are told of them.
constexpr size_t kSerialRows = 2;

constexpr size_t kFloatsPerLine = kVectorAlignment / sizeof(float);

size_t Stride(size_t length) {
  return (length + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(
    const ModelSpec& spec, WeightStore& weights, const KvPageLayout& cache, const Kernels& kernels,
    ThreadPool& pool, uint32_t row_count_max, uint32_t logit_row_count_max) {
  OUTRIDER_CHECK(row_count_max > 0 && logit_row_count_max > 0, "a transformer is made for rows");
  absl::StatusOr<RopeTable> rope = RopeTable::Create(spec.rope, weights.outer().rope_freqs);
  if (!rope.ok()) return Annotate(rope.status(), spec.name);
  const uint32_t inputs_max = std::max(
      {spec.embedding_length, spec.feed_forward_length, spec.head_count_max() * spec.value_length});
  OUTRIDER_ASSIGN_OR_RETURN(
      Multiplier multiplier,
      Multiplier::Create(kernels, pool, std::max(row_count_max, logit_row_count_max), inputs_max));
  std::unique_ptr<Transformer> transformer(new Transformer(spec, weights, cache, kernels, pool,
                                                           *std::move(rope), std::move(multiplier),
                                                           row_count_max, logit_row_count_max));
  OUTRIDER_RETURN_IF_ERROR(transformer->TakeMemory());
  return transformer;
}

Transformer::Transformer(const ModelSpec& spec, WeightStore& weights, const KvPageLayout& cache,
                         const Kernels& kernels, ThreadPool& pool, RopeTable rope,
                         Multiplier multiplier, uint32_t row_count_max,
                         uint32_t logit_row_count_max)
    : spec_(spec),
      weights_(weights),
      cache_(cache),
      kernels_(kernels.rows),
      pool_(pool),
      rope_(std::move(rope)),
      multiplier_(std::move(multiplier)),
      row_count_max_(row_count_max),
      logit_row_count_max_(logit_row_count_max),
      gone_(row_count_max),
      dropped_(std::make_unique<bool[]>(row_count_max)) {
  active_.reserve(row_count_max);
}

absl::Status Transformer::TakeMemory() {
  const size_t heads = spec_.head_count_max();
  const size_t kv_heads = spec_.kv_head_count_max();
  const size_t norm_rows = std::max(row_count_max_, logit_row_count_max_);
  struct Part {
    Rows& rows;
    size_t row_count;
    size_t length;
  };
  const std::array parts = {
      Part{hidden_, row_count_max_, spec_.embedding_length},
      Part{normed_, norm_rows, spec_.embedding_length},
      Part{query_, row_count_max_, heads * spec_.key_length},
      Part{key_, row_count_max_, kv_heads * spec_.key_length},
      Part{value_, row_count_max_, kv_heads * spec_.value_length},
      Part{attended_, row_count_max_, heads * spec_.value_length},
      Part{gate_, row_count_max_, spec_.feed_forward_length},
      Part{up_, row_count_max_, spec_.feed_forward_length},
      Part{cosines_, row_count_max_, rope_.pair_count()},
      Part{sines_, row_count_max_, rope_.pair_count()},
      Part{logits_, logit_row_count_max_, spec_.vocabulary_size},
  };
  size_t floats = 0;
  for (const Part& part : parts) floats += part.row_count * Stride(part.length);
  OUTRIDER_ASSIGN_OR_RETURN(memory_, PageBuffer::Create(floats * sizeof(float)));
  float* next = memory_.As<float>().data();
  for (const Part& part : parts) {
    part.rows = {next, Stride(part.length)};
    next += part.row_count * Stride(part.length);
  }
  return absl::OkStatus();
}

absl::Status Transformer::Forward(const Batch& batch, LayerObserver* observer) {
  const ScopedIeeeMode ieee;
  Begin(batch);
  for (uint32_t layer = 0; layer < spec_.layer_count() && !active_.empty(); ++layer) {
    OUTRIDER_ASSIGN_OR_RETURN(const LayerLease weights, weights_.Acquire(layer));
    Attention(*weights, layer);
    FeedForward(*weights);
    if (observer != nullptr && layer + 1 < spec_.layer_count()) Observe(*observer, layer);
  }
  return absl::OkStatus();
}

// Embeddings, and how far each row's position turns the pairs of a head.
void Transformer::Begin(const Batch& batch) {
  OUTRIDER_CHECK(batch.row_count() <= row_count_max_, "a batch is no larger than the transformer");
  batch_ = &batch;
  active_.clear();
  for (uint32_t row = 0; row < batch.row_count(); ++row) active_.push_back(row);
  std::ranges::fill(gone_, uint8_t{0});

  const OuterWeights& outer = weights_.outer();
  ForEachRow([&](size_t i) {
    const Batch::Row& row = batch.rows()[i];
    OUTRIDER_CHECK(row.token >= 0 && static_cast<uint32_t>(row.token) < spec_.vocabulary_size,
                   "tokens are checked where they enter");
    DecodeRow(outer.embeddings, static_cast<uint32_t>(row.token),
              {hidden_.row(i), spec_.embedding_length});
    if (spec_.learned_positions) {
      DecodeRow(outer.positions, row.position, {normed_.row(i), spec_.embedding_length});
      kernels_.add(hidden_.row(i), normed_.row(i), spec_.embedding_length);
    }
    rope_.Turn(row.position, cosines_.row(i), sines_.row(i));
  });
}

void Transformer::Attention(const LayerWeights& weights, uint32_t layer) {
  const AttentionShape& shape = spec_.layers[layer];
  NormalizeRows(weights.attention_norm, hidden_, normed_);
  Multiply(normed_, spec_.embedding_length,
           {{weights.query, query_}, {weights.key, key_}, {weights.value, value_}});
  ForEachRow([&](size_t i) { PlaceKeys(weights, layer, i); });
  // Now every row's keys are where the rows below it look for them.
  pool_.ParallelFor(active_.size() * shape.kv_head_count, [&](size_t task) {
    AttendHead(layer, task / shape.kv_head_count,
               static_cast<uint32_t>(task % shape.kv_head_count));
  });
  Multiply(attended_, shape.head_count * spec_.value_length, {{weights.attention_output, normed_}});
  AddRows(hidden_, normed_);
}

void Transformer::FeedForward(const LayerWeights& weights) {
  NormalizeRows(weights.feed_forward_norm, hidden_, normed_);
  if (spec_.gate == GateKind::kGeluTanh) {
    Multiply(normed_, spec_.embedding_length, {{weights.up, up_}});
  } else {
    Multiply(normed_, spec_.embedding_length, {{weights.gate, gate_}, {weights.up, up_}});
  }
  ForEachRow([&](size_t i) { Gate(i); });
  Multiply(up_, spec_.feed_forward_length, {{weights.down, normed_}});
  AddRows(hidden_, normed_);
}

// Turns a row's queries and keys by its position, and stores its keys and values.
void Transformer::PlaceKeys(const LayerWeights& weights, uint32_t layer, size_t i) {
  const AttentionShape& shape = spec_.layers[layer];
  const Batch::Row& row = batch_->rows()[active_[i]];
  const auto normalize_heads = [&](std::span<const float> weight, float* heads, uint32_t count) {
    if (weight.empty()) return;
    for (uint32_t head = 0; head < count; ++head) {
      float* const x = heads + size_t{head} * spec_.key_length;
      kernels_.rms_norm(x, weight.data(), spec_.norm_epsilon, spec_.key_length, x);
    }
  };
  normalize_heads(weights.query_norm, query_.row(i), shape.head_count);
  normalize_heads(weights.key_norm, key_.row(i), shape.kv_head_count);
  Rotate(query_.row(i), shape.head_count, active_[i]);
  Rotate(key_.row(i), shape.kv_head_count, active_[i]);
  for (uint32_t head = 0; head < shape.kv_head_count; ++head) {
    kernels_.to_half(
        key_.row(i) + size_t{head} * spec_.key_length, spec_.key_length,
        row.slot.page + cache_.keys_at(layer, head) + size_t{row.slot.slot} * spec_.key_length);
    kernels_.to_half(
        value_.row(i) + size_t{head} * spec_.value_length, spec_.value_length,
        row.slot.page + cache_.values_at(layer, head) + size_t{row.slot.slot} * spec_.value_length);
  }
}

// The query heads that share a key head look at all the keys their row sees.
void Transformer::AttendHead(uint32_t layer, size_t i, uint32_t kv_head) {
  const AttentionShape& shape = spec_.layers[layer];
  const Batch::Row& row = batch_->rows()[active_[i]];
  const uint32_t head_count = shape.head_count / shape.kv_head_count;
  const size_t first_head = size_t{kv_head} * head_count;
  kernels_.attend({.queries = query_.row(i) + first_head * spec_.key_length,
                   .outputs = attended_.row(i) + first_head * spec_.value_length,
                   .head_count = head_count,
                   .key_length = spec_.key_length,
                   .value_length = spec_.value_length,
                   .scale = spec_.attention_scale,
                   .first_position = row.first_position,
                   .runs = row.keys.data(),
                   .run_count = static_cast<uint32_t>(row.keys.size()),
                   .keys_at = cache_.keys_at(layer, kv_head),
                   .values_at = cache_.values_at(layer, kv_head)});
}

// Rows that are dropped, and those below them, make room: the others close up.
void Transformer::Observe(LayerObserver& observer, uint32_t layer) {
  std::fill_n(dropped_.get(), active_.size(), false);
  LayerView view(active_, hidden_.data, hidden_.stride, spec_.embedding_length,
                 {dropped_.get(), active_.size()});
  observer.AfterLayer(layer, view);
  size_t kept = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    const uint32_t row = active_[i];
    const uint32_t parent = batch_->rows()[row].parent;
    if (dropped_[i] || (parent != Batch::kNoRow && gone_[parent] != 0)) {
      gone_[row] = 1;
      continue;
    }
    if (kept < i) std::copy_n(hidden_.row(i), spec_.embedding_length, hidden_.row(kept));
    active_[kept++] = row;
  }
  active_.resize(kept);
}

LogitRows Transformer::Project(std::span<const uint32_t> indices) {
  OUTRIDER_CHECK(indices.size() <= logit_row_count_max_, "logits are asked for band by band");
  const ScopedIeeeMode ieee;
  const OuterWeights& outer = weights_.outer();
  for (size_t i = 0; i < indices.size(); ++i) {
    OUTRIDER_CHECK(indices[i] < active_.size(), "only rows that went all the way have logits");
    Normalize(outer.output_norm, hidden_.row(indices[i]), normed_.row(i));
  }
  const Product product = {&outer.head, logits_.data, logits_.stride};
  multiplier_.Multiply({.values = normed_.data,
                        .stride = normed_.stride,
                        .row_count = static_cast<uint32_t>(indices.size()),
                        .inputs = spec_.embedding_length},
                       {&product, 1});
  return {logits_.data, logits_.stride, static_cast<uint32_t>(indices.size()),
          spec_.vocabulary_size};
}

void Transformer::Normalize(const Norm& norm, const float* x, float* out) const {
  if (spec_.norm == NormKind::kRms) {
    kernels_.rms_norm(x, norm.weight.data(), spec_.norm_epsilon, spec_.embedding_length, out);
  } else {
    kernels_.layer_norm(x, norm.weight.data(), norm.bias.data(), spec_.norm_epsilon,
                        spec_.embedding_length, out);
  }
}

void Transformer::NormalizeRows(const Norm& norm, const Rows& x, const Rows& out) {
  ForEachRow([&](size_t i) { Normalize(norm, x.row(i), out.row(i)); });
}

void Transformer::Rotate(float* heads, uint32_t head_count, size_t row) const {
  if (spec_.rope.style == RopeStyle::kNone) return;
  const auto rotate = spec_.rope.style == RopeStyle::kInterleaved ? kernels_.rope_interleaved
                                                                  : kernels_.rope_halves;
  for (uint32_t head = 0; head < head_count; ++head) {
    rotate(heads + size_t{head} * spec_.key_length, cosines_.row(row), sines_.row(row),
           rope_.pair_count());
  }
}

void Transformer::Gate(size_t i) const {
  const uint32_t length = spec_.feed_forward_length;
  switch (spec_.gate) {
    case GateKind::kSiluGated:
      return kernels_.silu_gate(gate_.row(i), up_.row(i), length, up_.row(i));
    case GateKind::kGeluTanhGated:
      return kernels_.gelu_tanh_gate(gate_.row(i), up_.row(i), length, up_.row(i));
    case GateKind::kGeluTanh:
      return kernels_.gelu_tanh(up_.row(i), length, up_.row(i));
  }
}

// Several matrices times the same rows, and their biases.
void Transformer::Multiply(const Rows& x, uint32_t inputs, std::initializer_list<Output> outputs) {
  std::array<Product, 3> products;
  size_t count = 0;
  for (const Output& output : outputs) {
    products[count++] = {&output.linear.matrix, output.rows.data, output.rows.stride};
  }
  multiplier_.Multiply({.values = x.data,
                        .stride = x.stride,
                        .row_count = static_cast<uint32_t>(active_.size()),
                        .inputs = inputs},
                       std::span(products).first(count));
  for (const Output& output : outputs) {
    const std::span<const float> bias = output.linear.bias;
    if (bias.empty()) continue;
    ForEachRow([&](size_t i) {
      kernels_.add(output.rows.row(i), bias.data(), static_cast<uint32_t>(bias.size()));
    });
  }
}

void Transformer::AddRows(const Rows& x, const Rows& y) {
  ForEachRow([&](size_t i) { kernels_.add(x.row(i), y.row(i), spec_.embedding_length); });
}

template <typename Body>
void Transformer::ForEachRow(const Body& body) {
  if (active_.size() <= kSerialRows) {
    for (size_t i = 0; i < active_.size(); ++i) body(i);
    return;
  }
  pool_.ParallelFor(active_.size(), body);
}

}  // namespace outrider
