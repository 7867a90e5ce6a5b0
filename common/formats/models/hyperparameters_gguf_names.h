// How GGUF spells a model's numbers, for the reader and the writer. Private to this room.
//
// GGUF leaves to the architecture what config.json spells out (activation, norm, rope style), and
// some things to the tensors: no output matrix means tied embeddings, a feed-forward gate is there
// or not, rope_freqs means llama3 scaling. Where a model departs from its architecture's custom,
// the writer adds a key and the reader obeys it:
//   {arch}.hidden_activation                the activation, when it is not the customary one
//   {arch}.logit_scale                      Hyperparameters::output_scale
//   {arch}.expert_layers                    the blocks with experts, when not all have them
//   {arch}.attention.relative_max_distance  T5's, when it is not 128
//   {arch}.embedding_scale                  BART's, when it scales its embeddings
//   {arch}.attention.scale                  Gemma's, when it is not that of a model of its size
//   {arch}.rope.unturned_layers             the blocks without rope, when not the usual ones
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/formats/models/hyperparameters.h"

namespace outrider {

inline constexpr uint32_t kT5RelativeMaxDistance = 128;  // llama.cpp knows no other
inline constexpr float kGemma3WindowBase = 10000.0f;     // of rope, where a file does not say

inline constexpr std::array kActivationNames = {
    std::pair{Activation::kSilu, "silu"},
    std::pair{Activation::kGeluTanh, "gelu_pytorch_tanh"},
    std::pair{Activation::kGeluErf, "gelu"},
    std::pair{Activation::kRelu, "relu"},
    std::pair{Activation::kClampedSilu, "clamped_silu"},
};

inline constexpr std::array kScalingNames = {
    std::pair{RopeScaling::kNone, "none"},
    std::pair{RopeScaling::kLinear, "linear"},
    std::pair{RopeScaling::kYarn, "yarn"},
    std::pair{RopeScaling::kLongRope, "longrope"},
};

inline std::string_view NormEpsilonKey(const Hyperparameters& model) {
  return model.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                      : "attention.layer_norm_epsilon";
}

}  // namespace outrider
