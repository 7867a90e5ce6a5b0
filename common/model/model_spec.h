// What the forward pass has to know about a model besides its weights: the architecture, as data.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
//
// There is one forward pass (transformer.h) for every architecture here: Llama 2 and 3 with their
// kin (Vicuna, TinyLlama, Mistral), Qwen 2, 2.5 and 3, GPT-2. They differ in the facts below and in
// which optional weights they have (layer_weights.h). What that pass could not compute exactly is
// refused when the spec is made, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"

namespace outrider {

// One layer's attention: head_count queries; each key and value serves head_count / kv_head_count
// of them.
struct AttentionShape {
  uint32_t head_count;
  uint32_t kv_head_count;

  bool operator==(const AttentionShape&) const = default;
};

enum class GateKind {
  kSiluGated,      // silu(gate x) * up x
  kGeluTanhGated,  // gelu(gate x) * up x
  kGeluTanh,       // gelu(up x)
};

struct ModelSpec {
  std::string name;
  uint32_t context_length;  // positions the model was made for
  uint32_t embedding_length;
  uint32_t feed_forward_length;
  uint32_t vocabulary_size;

  std::vector<AttentionShape> layers;
  uint32_t key_length;  // of one head
  uint32_t value_length;
  float attention_scale;           // multiplies q.k
  std::optional<uint32_t> window;  // a row sees so many positions, its own the last

  NormKind norm;
  float norm_epsilon;
  GateKind gate;
  Rope rope;               // style kNone: positions are learned instead
  bool learned_positions;  // a row of a table is added to each embedding
  bool tied_embeddings;    // the embeddings are the head

  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  uint32_t head_count_max() const;
  uint32_t kv_head_count_max() const;

  // `path` starts every message. Unimplemented, naming it, for what this forward pass does not do:
  // experts, encoders, longrope, other activations. InvalidArgument for a file without weights.
  static absl::StatusOr<ModelSpec> From(const ModelFile& model, const std::string& path);
  // Of a model that has no file yet.
  static absl::StatusOr<ModelSpec> From(const Hyperparameters& model, const std::string& path);
};

}  // namespace outrider
