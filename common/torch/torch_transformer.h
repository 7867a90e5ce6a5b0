// The transformer of common/model once more, on libtorch: the same architectures from the same
// files, written with a library that shares no line of arithmetic with ours. So it is the core's
// independent oracle, what the trainers differentiate, and what torch_engine.h runs on a GPU.
//
//   OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer model,
//                             TorchTransformer::Load(*file, path, at::kCPU));
//   for (NamedParameter& parameter : model.parameters()) parameter.value.requires_grad_(true);
//   const TorchOutput output = model.Forward(tokens, {});       // tokens [B, T]
//   Loss(output.logits, next).backward();
//
// Parameters are float32 whatever the file holds, and the list of them is all the model's state: a
// trainer may change the tensors in place or put others of the same shape there (float64 for a
// gradient check), and the next Forward() computes with those. Under autocast the matrix products
// run in bfloat16, norms and the residual stream stay as the parameters are.
//
// The logits agree with the core's to rounding (tests/torch), never to the bit, and a row's bits
// depend on who else is in the batch and on the number of threads.
//
// Threads: Forward() may run in several, while nobody changes parameters.
// Errors:  Load() and Initialise() return a status. Forward() throws what libtorch throws when
//          shapes do not fit or memory runs out; torch_status.h turns that into a status.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

struct NamedParameter {
  std::string name;  // GGUF's: "blk.3.attn_q.weight"
  at::Tensor value;  // GGUF's dimensions backwards: [outputs, inputs]
};

struct TorchForwardOptions {
  // [B, T], int64: to which document each token belongs. Tokens of one document stand together;
  // they do not see other documents, and their positions count from its first. Undefined: every row
  // is one document.
  at::Tensor documents = {};
  // After which layers to hand out the hidden states, ascending.
  std::vector<uint32_t> hidden_layers = {};
};

struct TorchOutput {
  at::Tensor logits;               // [B, T, vocabulary]
  std::vector<at::Tensor> hidden;  // [B, T, embedding] before the final norm, as asked for
};

class TorchTransformer {
 public:
  TorchTransformer(TorchTransformer&&) = default;
  TorchTransformer& operator=(TorchTransformer&&) = default;

  // `path` starts every message. Unimplemented as ModelSpec::From() says, for parts of layers that
  // only the core has (soft caps, scales, norms after a part), and for element types that cannot be
  // decoded. `progress` may be null.
  static absl::StatusOr<TorchTransformer> Load(const ModelFile& model, const std::string& path,
                                               at::Device device,
                                               const LoadProgress& progress = nullptr);

  // A model to be trained: matrices normal with a deviation of 0.02 (those that end a layer's
  // halves less, by the depth), norms one, biases zero, optional biases absent. A function of the
  // seed. InvalidArgument for llama3 rope scaling, whose factors are another model's.
  static absl::StatusOr<TorchTransformer> Initialise(const Hyperparameters& model, uint64_t seed,
                                                     at::Device device);

  // From parameters that are there, all that the spec asks for, by the names files have for them
  // (formats/models/tensor_layout.h); they are on `device`. `rope_divisors` are the file's
  // rope_freqs.weight.
  static absl::StatusOr<TorchTransformer> Create(ModelSpec spec,
                                                 std::span<const float> rope_divisors,
                                                 std::vector<NamedParameter> parameters,
                                                 at::Device device);

  const ModelSpec& spec() const { return spec_; }
  at::Device device() const { return device_; }
  // In the order a pass meets them. Tied embeddings are there once, as in the file.
  std::span<NamedParameter> parameters() { return parameters_; }
  std::span<const NamedParameter> parameters() const { return parameters_; }
  // Of the file's tensors as they are stored, as every engine has it (formats/models/
  // content_parts.h); zero for a model that came from no file.
  uint64_t content_hash() const { return content_hash_; }

  // tokens: [B, T], int64, of the vocabulary, T no longer than the context. No layer hears an
  // encoder.
  TorchOutput Forward(const at::Tensor& tokens, const TorchForwardOptions& options) const;

  // Final norm and output matrix: [..., embedding] to [..., vocabulary].
  at::Tensor Head(const at::Tensor& hidden) const;

  // What enters the first layer for tokens [...], but for what positions add to it.
  at::Tensor Embed(const at::Tensor& tokens) const;

  // The layers alone, for whoever keeps keys and values: `embedded` is [..., embedding], positions
  // are [...], and `attend` gets a layer's queries [..., heads, key length], keys and values [..., kv heads,
  // length], turned already, and returns [..., heads, value length]. Returns the hidden states
  // before the final norm. `hear` gets the queries of a layer that hears an encoder, and returns
  // the same of what was heard; null: no layer does. `observe` may be null, and is called after
  // every layer.
  using Attend = std::function<at::Tensor(uint32_t layer, const at::Tensor& query,
                                          const at::Tensor& key, const at::Tensor& value)>;
  using Hear = std::function<at::Tensor(uint32_t layer, const at::Tensor& query)>;
  using Observe = std::function<void(uint32_t layer, const at::Tensor& hidden)>;
  at::Tensor Layers(const at::Tensor& embedded, const at::Tensor& positions, const Attend& attend,
                    const Hear& hear, const Observe& observe) const;

  // What such a layer makes of an encoder's rows [..., embedding]: [..., kv heads, length].
  struct Heard {
    at::Tensor keys;
    at::Tensor values;
  };
  Heard HeardBy(uint32_t layer, const at::Tensor& states) const;

 private:
  // Null: the model has none. They point into parameters_.
  using Parameter = const at::Tensor*;
  struct Norm {
    Parameter weight = nullptr;
    Parameter bias = nullptr;  // layer norm only
  };
  struct Linear {
    Parameter weight = nullptr;
    Parameter bias = nullptr;
  };
  struct Layer {
    Norm attention_norm;
    Linear query_key_value;  // GPT-2: the three in one
    Linear query, key, value;
    Parameter query_norm = nullptr;  // of one head, of all, or a row for each
    Parameter key_norm = nullptr;
    Linear attention_output;
    Norm cross_attention_norm;  // where it hears an encoder
    Linear cross_query, cross_key, cross_value, cross_output;
    Norm feed_forward_norm;
    Linear gate, up, down;
    Linear router;                                              // or, where there are experts,
    Parameter gates = nullptr, ups = nullptr, downs = nullptr;  // [experts, outputs, inputs]
  };
  struct WayToTurn {
    Rope rope;
    at::Tensor frequencies;  // [pairs]
  };
  struct Turns;  // cosines and sines of some positions

  TorchTransformer(ModelSpec spec, std::vector<NamedParameter> parameters, at::Device device)
      : spec_(std::move(spec)), device_(device), parameters_(std::move(parameters)) {}

  absl::Status CheckParts() const;
  absl::Status MakeFrequencies(std::span<const float> divisors);
  void FindParameters();
  Parameter Find(const std::string& name) const;
  Norm FindNorm(const std::string& name) const;
  Linear FindLinear(const std::string& name) const;

  static at::Tensor Multiply(const Linear& linear, const at::Tensor& x);
  Turns TurnsAt(const WayToTurn& way, const at::Tensor& positions) const;
  at::Tensor Normalize(const Norm& norm, const at::Tensor& x) const;
  at::Tensor NormalizeRms(const at::Tensor& weight, const at::Tensor& x) const;
  at::Tensor Attention(const Layer& weights, uint32_t layer, const at::Tensor& hidden,
                       const Turns& turns, const Attend& attend) const;
  at::Tensor CrossAttention(const Layer& weights, uint32_t layer, const at::Tensor& hidden,
                            const Hear& hear) const;
  at::Tensor NormalizeHeads(HeadNorms norms, const at::Tensor& weight, const at::Tensor& x) const;
  at::Tensor AskExperts(const Layer& weights, uint32_t layer, const at::Tensor& normed) const;
  at::Tensor FeedForward(const Layer& weights, uint32_t layer, const at::Tensor& hidden) const;

  ModelSpec spec_;
  at::Device device_;
  uint64_t content_hash_ = 0;
  std::vector<WayToTurn> ways_to_turn_;  // one for each rope the layers have
  std::vector<size_t> way_of_layer_;
  std::vector<NamedParameter> parameters_;  // as many as there will be before anybody points there
  std::vector<Layer> layers_;
  Parameter embeddings_ = nullptr;
  Parameter positions_ = nullptr;  // where they are learned
  Norm output_norm_;
  Parameter head_ = nullptr;
};

}  // namespace outrider
