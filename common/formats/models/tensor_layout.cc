#include "common/formats/models/tensor_layout.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"

namespace outrider {
namespace {

enum class Need { kRequired, kOptional, kAbsent };

class Layout {
 public:
  explicit Layout(const Hyperparameters& model) : model_(model) {}

  std::vector<ExpectedTensor> Build() && {
    const uint64_t embedding = model_.embedding_length;
    Weight("token_embd", {embedding, model_.vocabulary_size});
    switch (model_.architecture) {
      case Architecture::kGpt2:
        Weight("position_embd", {embedding, model_.context_length});
        for (uint32_t n = 0; n < model_.block_count; ++n) AddGpt2Block(n);
        Norm("output_norm");
        break;
      case Architecture::kT5:
      case Architecture::kSwitch:
        AddT5Side("enc.", 0, model_.block_count, false);
        AddT5Side("dec.", model_.block_count, model_.decoder_block_count, true);
        break;
      case Architecture::kBart:
        AddBartSide("enc.", 0, model_.block_count, false);
        AddBartSide("dec.", model_.block_count, model_.decoder_block_count, true);
        break;
      default:
        AddRopeFactors();
        for (uint32_t n = 0; n < model_.block_count; ++n) AddRopeBlock(n);
        Norm("output_norm");
        break;
    }
    if (!model_.tied_embeddings) Weight("output", {embedding, model_.vocabulary_size});
    if (model_.architecture == Architecture::kBart) {
      Add("output.bias", {model_.vocabulary_size}, Need::kOptional);
    }
    return std::move(tensors_);
  }

 private:
  void Add(std::string tensor, std::vector<uint64_t> dims, Need need) {
    if (need == Need::kAbsent) return;
    tensors_.push_back({std::move(tensor), std::move(dims), need == Need::kRequired});
  }
  void Weight(std::string_view tensor, std::vector<uint64_t> dims, Need need = Need::kRequired) {
    Add(Concat(tensor, ".weight"), std::move(dims), need);
  }
  // columns -> rows, so GGUF's [columns, rows]
  void Matrix(std::string_view tensor, uint64_t columns, uint64_t rows, Need bias) {
    Weight(tensor, {columns, rows});
    Add(Concat(tensor, ".bias"), {rows}, bias);
  }
  void Norm(std::string_view tensor) {
    Weight(tensor, {model_.embedding_length});
    if (model_.norm == NormKind::kLayer && model_.norm_biases) {
      Add(Concat(tensor, ".bias"), {model_.embedding_length}, Need::kRequired);
    }
  }

  // Query, key, value and output projections of block `index` (counted over both sides).
  void Attention(const std::string& at, std::string_view output, uint32_t index, Need bias,
                 Need output_bias) {
    const uint64_t embedding = model_.embedding_length;
    const uint64_t heads = model_.head_count[index];
    const uint64_t heads_kv = model_.head_count_kv[index];
    Matrix(at + "q", embedding, heads * model_.key_length, bias);
    Matrix(at + "k", embedding, heads_kv * model_.key_length, bias);
    Matrix(at + "v", embedding, heads_kv * model_.value_length, bias);
    Matrix(Concat(at, output), heads * model_.value_length, embedding, output_bias);
  }

  void FeedForward(const std::string& block, uint32_t index, Need bias) {
    const uint64_t embedding = model_.embedding_length;
    if (model_.has_experts(index)) {
      const uint64_t length = model_.experts.feed_forward_length;
      const uint64_t count = model_.experts.count;
      const bool biased = model_.architecture == Architecture::kGptOss;
      const Need router_bias = model_.architecture == Architecture::kSwitch ? Need::kOptional
                               : biased                                     ? Need::kRequired
                                                                            : Need::kAbsent;
      Matrix(block + "ffn_gate_inp", embedding, count, router_bias);
      if (model_.gated) Weight(block + "ffn_gate_exps", {embedding, length, count});
      Weight(block + "ffn_up_exps", {embedding, length, count});
      Weight(block + "ffn_down_exps", {length, embedding, count});
      if (biased) {
        Add(block + "ffn_gate_exps.bias", {length, count}, Need::kRequired);
        Add(block + "ffn_up_exps.bias", {length, count}, Need::kRequired);
        Add(block + "ffn_down_exps.bias", {embedding, count}, Need::kRequired);
      }
      if (model_.experts.shared_feed_forward_length > 0) SharedExpert(block);
      return;
    }
    const uint64_t length = model_.feed_forward_length;
    const bool is_fused = model_.architecture == Architecture::kPhi3;  // the gate's rows first
    if (model_.gated && !is_fused) Matrix(block + "ffn_gate", embedding, length, bias);
    Matrix(block + "ffn_up", embedding, is_fused ? 2 * length : length, bias);
    Matrix(block + "ffn_down", length, embedding, bias);
  }

  void SharedExpert(const std::string& block) {
    const uint64_t embedding = model_.embedding_length;
    const uint64_t length = model_.experts.shared_feed_forward_length;
    Weight(block + "ffn_gate_inp_shexp", {embedding});
    Weight(block + "ffn_gate_shexp", {embedding, length});
    Weight(block + "ffn_up_shexp", {embedding, length});
    Weight(block + "ffn_down_shexp", {length, embedding});
  }

  void AddRopeFactors() {
    const std::vector<uint64_t> dims = {model_.rope.dimension_count / 2};
    if (model_.rope.scaling == RopeScaling::kLlama3) Weight("rope_freqs", dims);
    if (model_.rope.scaling == RopeScaling::kLongRope) {
      Weight("rope_factors_long", dims);
      Weight("rope_factors_short", dims);
    }
  }

  void AddRopeBlock(uint32_t n) {
    const std::string block = Concat("blk.", n, ".");
    const BlockNorms norms = NormsOf(model_);
    if (norms.before) Norm(block + "attn_norm");
    if (model_.architecture == Architecture::kPhi3) {
      FusedAttention(block, n);
    } else {
      const bool biased = model_.architecture == Architecture::kQwen2 ||
                          model_.architecture == Architecture::kQwen2Moe;
      Attention(block + "attn_", "output", n, biased ? Need::kRequired : Need::kOptional,
                Need::kOptional);
    }
    HeadNorms(block, n);
    if (model_.architecture == Architecture::kGptOss) {
      Weight(block + "attn_sinks", {model_.head_count[n]});
      Norm(block + "post_attention_norm");  // before the feed-forward part
      FeedForward(block, n, Need::kOptional);
      return;
    }
    if (norms.after) Norm(block + "post_attention_norm");
    if (norms.before && !model_.parallel_blocks) Norm(block + "ffn_norm");
    FeedForward(block, n, Need::kOptional);
    if (norms.after) Norm(block + "post_ffw_norm");
  }

  // Where the norms of a block's two parts stand.
  struct BlockNorms {
    bool before = true;
    bool after = false;
  };
  static BlockNorms NormsOf(const Hyperparameters& model) {
    switch (model.architecture) {
      case Architecture::kGemma2:
      case Architecture::kGemma3:
        return {.before = true, .after = true};
      case Architecture::kOlmo2:
      case Architecture::kExaone4:
        return {.before = false, .after = true};
      default:
        return {};
    }
  }

  // Of queries and of keys: one for each head, one of each head, or of all of them together.
  void HeadNorms(const std::string& block, uint32_t n) {
    const uint64_t length = model_.key_length;
    if (model_.norms_each_head) {
      Weight(block + "attn_q_norm", {length, model_.head_count[n]});
      Weight(block + "attn_k_norm", {length, model_.head_count_kv[n]});
      return;
    }
    switch (model_.architecture) {
      case Architecture::kQwen3:
      case Architecture::kQwen3Moe:
      case Architecture::kGemma3:
      case Architecture::kExaone4:
        Weight(block + "attn_q_norm", {length});
        Weight(block + "attn_k_norm", {length});
        break;
      case Architecture::kOlmo2:
      case Architecture::kOlmoe:
        Weight(block + "attn_q_norm", {model_.head_count[n] * length});
        Weight(block + "attn_k_norm", {model_.head_count_kv[n] * length});
        break;
      default:
        break;
    }
  }

  void FusedAttention(const std::string& block, uint32_t n) {
    const uint64_t heads = model_.head_count[n];
    const uint64_t heads_kv = model_.head_count_kv[n];
    const uint64_t embedding = model_.embedding_length;
    Matrix(block + "attn_qkv", embedding,
           (heads + heads_kv) * model_.key_length + heads_kv * model_.value_length,
           Need::kOptional);
    Matrix(block + "attn_output", heads * model_.value_length, embedding, Need::kOptional);
  }

  void AddGpt2Block(uint32_t n) {
    const std::string block = Concat("blk.", n, ".");
    const uint64_t embedding = model_.embedding_length;
    const uint64_t heads = model_.head_count[n];
    const uint64_t heads_kv = model_.head_count_kv[n];
    Norm(block + "attn_norm");
    Matrix(block + "attn_qkv", embedding,
           (heads + heads_kv) * model_.key_length + heads_kv * model_.value_length,
           Need::kRequired);
    Matrix(block + "attn_output", heads * model_.value_length, embedding, Need::kRequired);
    Norm(block + "ffn_norm");
    FeedForward(block, n, Need::kRequired);
  }

  void AddT5Side(const std::string& side, uint32_t first, uint32_t count, bool is_decoder) {
    for (uint32_t n = 0; n < count; ++n) {
      const std::string block = Concat(side, "blk.", n, ".");
      Norm(block + "attn_norm");
      Attention(block + "attn_", "o", first + n, Need::kAbsent, Need::kAbsent);
      // Block 0's serves them all; some files repeat it.
      Weight(block + "attn_rel_b", {model_.head_count[first + n], model_.relative_buckets},
             n == 0 ? Need::kRequired : Need::kOptional);
      if (is_decoder) {
        Norm(block + "cross_attn_norm");
        Attention(block + "cross_attn_", "o", first + n, Need::kAbsent, Need::kAbsent);
        Weight(block + "cross_attn_rel_b",  // in some files, and used by nobody
               {model_.head_count[first + n], model_.relative_buckets}, Need::kOptional);
      }
      Norm(block + "ffn_norm");
      FeedForward(block, first + n, Need::kAbsent);
    }
    Norm(side + "output_norm");
  }

  void AddBartSide(const std::string& side, uint32_t first, uint32_t count, bool is_decoder) {
    Weight(side + "position_embd", {model_.embedding_length, model_.context_length});
    Norm(side + "token_embd_norm");
    for (uint32_t n = 0; n < count; ++n) {
      const std::string block = Concat(side, "blk.", n, ".");
      Attention(block + "attn_", "o", first + n, Need::kRequired, Need::kRequired);
      Norm(block + "attn_output_norm");
      if (is_decoder) {
        Attention(block + "cross_attn_", "o", first + n, Need::kRequired, Need::kRequired);
        Norm(block + "cross_attn_output_norm");
      }
      FeedForward(block, first + n, Need::kRequired);
      Norm(block + "layer_output_norm");
    }
  }

  const Hyperparameters& model_;
  std::vector<ExpectedTensor> tensors_;
};

// GGUF may or may not spell out trailing dimensions of one.
std::span<const uint64_t> WithoutTrailingOnes(std::span<const uint64_t> dims) {
  while (dims.size() > 1 && dims.back() == 1) dims = dims.first(dims.size() - 1);
  return dims;
}

// How a message calls a tensor: by the file's name for it, and by ours where that is another.
std::string CallIt(std::string_view stored_name, std::string_view name) {
  if (stored_name == name) return std::string(name);
  return Concat(stored_name, " (", name, ")");
}

class Checker {
 public:
  Checker(std::span<const FoundTensor> tensors, const std::string& file,
          const StoredName& stored_name)
      : file_(file), stored_name_(stored_name) {
    for (const FoundTensor& tensor : tensors) unseen_.emplace(tensor.name, &tensor);
  }

  absl::Status Check(const ExpectedTensor& expected) {
    const FoundTensor* found = Take(expected.name);
    if (found != nullptr) return CheckShape(*found, expected.dims);
    constexpr std::string_view kStacked = "_exps.weight";
    if (expected.name.ends_with(kStacked)) {
      const std::string stem = expected.name.substr(0, expected.name.size() - kStacked.size());
      if (unseen_.contains(Concat(stem, ".0.weight"))) return CheckExperts(stem, expected.dims);
    }
    if (!expected.required) return absl::OkStatus();
    const std::string stored = stored_name_ ? stored_name_(expected.name) : expected.name;
    return NotFound(file_, ": has no tensor ", CallIt(stored, expected.name), ", expected one of ",
                    FormatDims(expected.dims));
  }

  absl::Status NothingIsLeft(Architecture architecture) const {
    if (unseen_.empty()) return absl::OkStatus();
    const auto first =
        std::ranges::min_element(unseen_, {}, [](const auto& entry) { return entry.second->name; });
    return InvalidArgument(file_, ": tensor ", CallIt(first->second->stored_name, first->first),
                           " is none of a ", Name(architecture), " model's");
  }

 private:
  const FoundTensor* Take(const std::string& name) {
    const auto found = unseen_.find(name);
    if (found == unseen_.end()) return nullptr;
    const FoundTensor* tensor = found->second;
    unseen_.erase(found);
    return tensor;
  }

  absl::Status CheckShape(const FoundTensor& tensor, std::span<const uint64_t> dims) const {
    if (std::ranges::equal(WithoutTrailingOnes(tensor.dims), WithoutTrailingOnes(dims))) {
      return absl::OkStatus();
    }
    return InvalidArgument(file_, ": tensor ", CallIt(tensor.stored_name, tensor.name), " is ",
                           FormatDims(tensor.dims), ", expected ", FormatDims(dims));
  }

  absl::Status CheckExperts(const std::string& stem, std::span<const uint64_t> dims) {
    for (uint64_t expert = 0; expert < dims[2]; ++expert) {
      const std::string name = Concat(stem, ".", expert, ".weight");
      const FoundTensor* found = Take(name);
      if (found == nullptr) {
        return NotFound(file_, ": has no tensor ", name, ", expected one for each of ", dims[2],
                        " experts");
      }
      OUTRIDER_RETURN_IF_ERROR(CheckShape(*found, dims.first(2)));
    }
    return absl::OkStatus();
  }

  const std::string& file_;
  const StoredName& stored_name_;
  absl::flat_hash_map<std::string, const FoundTensor*> unseen_;
};

}  // namespace

std::vector<ExpectedTensor> TensorLayout(const Hyperparameters& hyperparameters) {
  return Layout(hyperparameters).Build();
}

absl::Status CheckTensors(const Hyperparameters& hyperparameters,
                          std::span<const FoundTensor> tensors, const std::string& name,
                          const StoredName& stored_name) {
  Checker checker(tensors, name, stored_name);
  for (const ExpectedTensor& expected : TensorLayout(hyperparameters)) {
    OUTRIDER_RETURN_IF_ERROR(checker.Check(expected));
  }
  return checker.NothingIsLeft(hyperparameters.architecture);
}

std::string FormatDims(std::span<const uint64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += Concat(i > 0 ? ", " : "", dims[i]);
  return text + "]";
}

}  // namespace outrider
