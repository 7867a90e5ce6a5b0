// Cross attention for models of random weights (random_model.h), as no model that runs today has it:
// its shape, weights that a store gives the layers beside those of their file, and what an encoder
// might say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "common/kernels/weight_matrix.h"
#include "common/model/model_spec.h"
#include "common/model/weights/weight_store.h"
#include "tests/model/engine.h"
#include "tests/model/wrapped_store.h"

namespace outrider {

inline constexpr uint32_t kHearingWidth = 256;  // of the residual stream
inline constexpr CrossAttentionSpec kHearing = {
    .head_count = 6, .kv_head_count = 3, .key_length = 40, .value_length = 24, .scale = 0.2f};

inline std::vector<float> RandomFloats(size_t count, float size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = size * (static_cast<float>(random() % 20001) / 10000.0f - 1.0f);
  }
  return values;
}

inline std::vector<float> EncoderStates(uint32_t count, uint32_t seed) {
  return RandomFloats(size_t{count} * kHearingWidth, 1.0f, seed);
}

// A matrix of random floats, in rows.
struct RandomMatrix {
  RandomMatrix(uint32_t outputs, uint32_t inputs, uint32_t seed)
      : values(RandomFloats(size_t{outputs} * inputs, 0.12f, seed)),
        linear{.matrix = {TensorType::kF32, WeightLayout::kRows, outputs, inputs,
                          reinterpret_cast<const std::byte*>(values.data())},
               .bias = {}} {}

  const std::vector<float> values;
  const Linear linear;
};

// The same for every layer that hears.
struct HearingWeights {
  const std::vector<float> norm = RandomFloats(kHearingWidth, 1.0f, 1);
  const RandomMatrix query{kHearing.head_count * kHearing.key_length, kHearingWidth, 2};
  const RandomMatrix key{kHearing.kv_head_count * kHearing.key_length, kHearingWidth, 3};
  const RandomMatrix value{kHearing.kv_head_count * kHearing.value_length, kHearingWidth, 4};
  const RandomMatrix output{kHearingWidth, kHearing.head_count* kHearing.value_length, 5};
};

class HearingStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    layer_ = *OrDie(store_.Acquire(key));
    layer_.cross_attention_norms.before.weight = weights_.norm;
    layer_.cross_attention = {weights_.query.linear, weights_.key.linear, weights_.value.linear,
                              weights_.output.linear};
    return Lease<LayerWeights>(*this, key, layer_);
  }

 private:
  const HearingWeights weights_ = {};
  LayerWeights layer_;
};

}  // namespace outrider
