// What the forward pass has to know about a model besides its weights: a stack of layers, as data.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
//
// There is one forward pass (transformer.h) for every architecture here: Llama 2 and 3 with their
// kin (Vicuna, TinyLlama, Mistral, Mixtral, SmolLM, Falcon 3), Ministral 3, Qwen 2, 2.5 and 3 with
// and without experts, Gemma, Phi, Granite, OLMo, StableLM, Cohere 2, EXAONE 4, GPT-2. They differ
// in the facts below, layer by layer, and in which optional weights they have (layer_weights.h).
// What that pass could not compute exactly is refused when the spec is made, by name.
//
// A ModelSpec is one stack and its outer parts: embeddings before it, norm and head behind. A model
// of encoder and decoder is two of them: what the encoder's stack comes to is what an engine over
// the decoder is told (Engine::Hear), and the decoder's layers know no more of it than that they
// have cross attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/memory/layer_keeps.h"

namespace outrider {

// How queries and keys are normed before they turn, where a layer has weights for that.
enum class HeadNorms {
  kRms,  // each head by a weight as long (Qwen 3), all together by one as long as they (OLMoE)
  kLayerEach,  // each head by a weight of its own, without a bias (StableLM 2 12B)
};

// head_count queries; each key and value serves head_count / kv_head_count of them.
struct AttentionSpec {
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t key_length;  // of one head
  uint32_t value_length;
  float scale;                     // multiplies q.k
  std::optional<uint32_t> window;  // a row sees so many positions, its own the last
  Rope rope;                       // style kNone: nothing turns
  // The layer further down whose keys and values are looked at; none: its own.
  std::optional<uint32_t> cells_of;
  std::optional<float> soft_cap = {};  // of scores
  std::optional<QueryGrowth> query_growth = {};
  HeadNorms head_norms = HeadNorms::kRms;

  bool operator==(const AttentionSpec&) const = default;
};

class Mixer;

// A mixer of a kind that is none of this library's: who computes it (layers/mixer.h), and what it
// keeps. It brings its own weights.
struct GuestMixer {
  std::string name;  // what numerics ids know it by
  LayerKeeps keeps;
  Mixer* mixer;  // outlives all that is made by the spec

  bool operator==(const GuestMixer&) const = default;
};

// How the rows of a layer hear of those above them. Another kind is another alternative here, with a
// Mixer and with weights of its own (LayerWeights).
using MixerSpec = std::variant<AttentionSpec, GuestMixer>;

// Attention to the rows of an encoder: all of them, whatever the row.
struct CrossAttentionSpec {
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t key_length;  // of one head
  uint32_t value_length;
  float scale;  // multiplies q.k

  bool operator==(const CrossAttentionSpec&) const = default;
};

enum class GateKind {
  kSiluGated,         // silu(gate x) * up x
  kGeluTanhGated,     // gelu(gate x) * up x
  kGeluTanh,          // gelu(up x)
  kClampedSiluGated,  // silu_1.702(gate x) * (up x + 1), both clamped
};

// Which experts a row goes to: the `used_count` that the softmax of the router's product over all of
// them likes best, each weighted by what it gives it.
struct RouterSpec {
  uint32_t expert_count;
  uint32_t used_count;
  bool renormalize;  // the weights of those that are used are divided by their sum

  bool operator==(const RouterSpec&) const = default;
};

struct FeedForwardSpec {
  GateKind gate;
  uint32_t length;                   // of the vector between `up` and `down`; of one expert's
  std::optional<RouterSpec> router;  // none: one for all rows
  // Of the expert that every row goes to beside those, by what a gate of its own says; none: none.
  std::optional<uint32_t> shared_length = {};

  bool operator==(const FeedForwardSpec&) const = default;
};

//   hidden += mixer(norm(hidden))
//   hidden += cross_attention(norm(hidden))                 where there is one
//   hidden += feed_forward(norm(hidden))
//
// Where a part's norms stand is said by its weights (PartNorms): those it has. A parallel layer has
// both of the same normed rows:  hidden += mixer(normed), hidden += feed_forward(normed)
struct LayerSpec {
  MixerSpec mixer;
  std::optional<CrossAttentionSpec> cross_attention;
  FeedForwardSpec feed_forward;
  bool is_parallel = false;  // without cross attention

  // Null: its mixer is of another kind.
  const AttentionSpec* attention() const { return std::get_if<AttentionSpec>(&mixer); }
  AttentionSpec* attention() { return std::get_if<AttentionSpec>(&mixer); }

  bool operator==(const LayerSpec&) const = default;
};

struct ModelSpec {
  std::string name;
  std::string file = {};    // the last part of its path, for messages; empty: it has no file yet
  uint32_t context_length;  // positions the model was made for
  uint32_t embedding_length;
  uint32_t vocabulary_size;
  NormKind norm;
  float norm_epsilon;
  bool learned_positions;        // a row of a table is added to each embedding
  bool tied_embeddings;          // the embeddings are the head
  float embedding_scale = 1.0f;  // of what is looked up
  float residual_scale = 1.0f;   // of what a part of a layer adds
  float logit_scale = 1.0f;
  std::optional<float> logit_soft_cap = {};      // after that
  uint32_t numerics_version = kNumericsVersion;  // of the newest rule its weights' types take

  std::vector<LayerSpec> layers;

  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  // Whether any layer does.
  bool hears_encoder() const;

  // No text is longer: what depends on that (longrope) is settled, before weights are loaded.
  void LimitContext(uint32_t length);

  // `path` starts every message. Unimplemented, naming it, for what this forward pass does not do:
  // encoders, other activations. InvalidArgument for a file without weights.
  static absl::StatusOr<ModelSpec> From(const ModelFile& model, const std::string& path);
  // Of a model that has no file yet.
  static absl::StatusOr<ModelSpec> From(const Hyperparameters& model, const std::string& path);
};

}  // namespace outrider
