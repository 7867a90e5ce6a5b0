#include "common/model/layers/row_math.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

// The longest row that enters a product.
uint32_t InputsMax(const ModelSpec& spec) {
  uint32_t inputs = spec.embedding_length;
  for (const LayerSpec& layer : spec.layers) {
    inputs =
        std::max({inputs, layer.feed_forward.length, layer.feed_forward.shared_length.value_or(0)});
    if (const AttentionSpec* const shape = layer.attention(); shape != nullptr) {
      inputs = std::max(inputs, shape->head_count * shape->value_length);
    }
    if (const std::optional<CrossAttentionSpec>& shape = layer.cross_attention) {
      inputs = std::max(inputs, shape->head_count * shape->value_length);
    }
  }
  return inputs;
}

uint32_t ExpertCountMax(const ModelSpec& spec) {
  uint32_t count = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.feed_forward.router) count = std::max(count, layer.feed_forward.router->expert_count);
  }
  return count;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowMath>> RowMath::Create(const ModelSpec& spec,
                                                         const Kernels& kernels, ThreadPool& pool,
                                                         uint32_t row_count_max) {
  OUTRIDER_ASSIGN_OR_RETURN(Multiplier multiplier,
                            Multiplier::Create(kernels, pool, row_count_max, InputsMax(spec)));
  return std::unique_ptr<RowMath>(new RowMath(spec, kernels, pool, std::move(multiplier)));
}

RowMath::RowMath(const ModelSpec& spec, const Kernels& kernels, ThreadPool& pool,
                 Multiplier multiplier)
    : zeros_(spec.norm == NormKind::kLayer ? spec.embedding_length : 0),
      spec_(spec),
      kernels_(kernels.rows),
      pool_(pool),
      multiplier_(std::move(multiplier)) {
  products_.reserve(2 * ExpertCountMax(spec));
}

void RowMath::Normalize(const Norm& norm, const float* x, float* out) const {
  if (spec_.norm == NormKind::kRms) {
    kernels_.rms_norm(x, norm.weight.data(), spec_.norm_epsilon, spec_.embedding_length, out);
  } else {
    const float* const bias = norm.bias.empty() ? zeros_.data() : norm.bias.data();
    kernels_.layer_norm(x, norm.weight.data(), bias, spec_.norm_epsilon, spec_.embedding_length,
                        out);
  }
}

void RowMath::Normalize(const Norm& norm, const RowBlock& x, uint32_t row_count,
                        const RowBlock& out) const {
  ForEachRow(row_count, [&](size_t i) { Normalize(norm, x.row(i), out.row(i)); });
}

void RowMath::Add(const RowBlock& x, const RowBlock& y, uint32_t row_count) const {
  ForEachRow(row_count,
             [&](size_t i) { kernels_.add(x.row(i), y.row(i), spec_.embedding_length); });
}

void RowMath::Scale(float scale, const RowBlock& x, uint32_t row_count) const {
  if (scale == 1.0f) return;
  ForEachRow(row_count, [&](size_t i) {
    const WeightedRow scaled = {x.row(i), scale};
    kernels_.weighted_sum(&scaled, 1, spec_.embedding_length, x.row(i));
  });
}

void RowMath::Multiply(const RowBlock& x, uint32_t row_count, uint32_t inputs,
                       std::initializer_list<Output> outputs) {
  std::array<Product, 3> products;
  size_t count = 0;
  for (const Output& output : outputs) {
    products[count++] = {&output.linear.matrix, output.rows.data, output.rows.stride};
  }
  multiplier_.Multiply(
      {.values = x.data, .stride = x.stride, .row_count = row_count, .inputs = inputs},
      std::span(products).first(count));
  for (const Output& output : outputs) {
    const std::span<const float> bias = output.linear.bias;
    if (bias.empty()) continue;
    ForEachRow(row_count, [&](size_t i) {
      kernels_.add(output.rows.row(i), bias.data(), static_cast<uint32_t>(bias.size()));
    });
  }
}

void RowMath::Multiply(const RowBlock& x, uint32_t row_count, uint32_t inputs,
                       std::span<const Share> shares) {
  products_.clear();
  for (const Share& share : shares) {
    products_.push_back({&share.linear->matrix, share.out.data, share.out.stride, share.rows});
  }
  multiplier_.Multiply(
      {.values = x.data, .stride = x.stride, .row_count = row_count, .inputs = inputs}, products_);
  for (const Share& share : shares) {
    const std::span<const float> bias = share.linear->bias;
    if (bias.empty()) continue;
    ForEachRow(share.rows.count, [&](size_t i) {
      kernels_.add(share.out.row(share.rows.first + i), bias.data(),
                   static_cast<uint32_t>(bias.size()));
    });
  }
}

void RowMath::Multiply(const RowBlock& x, uint32_t row_count, const WeightMatrix& matrix,
                       const RowBlock& out) {
  const Product product = {&matrix, out.data, out.stride};
  multiplier_.Multiply(
      {.values = x.data, .stride = x.stride, .row_count = row_count, .inputs = matrix.inputs},
      {&product, 1});
}

}  // namespace outrider
