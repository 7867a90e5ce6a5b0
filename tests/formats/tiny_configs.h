// The smallest config.json of some families, and what comes of reading them.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "gtest/gtest.h"

namespace outrider {

inline constexpr char kFile[] = "zoo/tiny/config.json";

// A config.json body from the family's smallest set of keys and whatever comes on top; a key given
// twice counts as given last.
inline std::string Config(std::string_view base, std::string_view more = "") {
  return Concat("{", base, more.empty() ? "" : ",", more, "}");
}

inline constexpr char kLlama[] = R"("model_type":"llama","hidden_size":64,"intermediate_size":96,
    "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":300,
    "max_position_embeddings":2048)";
inline constexpr char kQwen2[] = R"("model_type":"qwen2","hidden_size":64,"intermediate_size":96,
    "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":300,
    "max_position_embeddings":2048)";
inline constexpr char kMixtral[] =
    R"("model_type":"mixtral","hidden_size":64,"intermediate_size":96,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":300,
    "max_position_embeddings":2048,"num_local_experts":8,"num_experts_per_tok":2)";
inline constexpr char kQwen3Moe[] =
    R"("model_type":"qwen3_moe","hidden_size":64,"intermediate_size":96,
    "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,
    "vocab_size":300,"max_position_embeddings":2048,"num_experts":8,"num_experts_per_tok":2,
    "moe_intermediate_size":24,"norm_topk_prob":true)";
inline constexpr char kGpt2[] = R"("model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":2,
    "n_positions":128,"vocab_size":300)";
inline constexpr char kT5[] = R"("model_type":"t5","d_model":64,"d_kv":8,"d_ff":96,"num_layers":2,
    "num_heads":4,"vocab_size":300)";
inline constexpr char kBart[] =
    R"("model_type":"bart","d_model":64,"encoder_layers":3,"decoder_layers":2,
    "encoder_ffn_dim":96,"decoder_ffn_dim":96,"encoder_attention_heads":4,
    "decoder_attention_heads":4,"vocab_size":300,"max_position_embeddings":128)";
inline constexpr char kSwitch[] =
    R"("model_type":"switch_transformers","d_model":64,"d_kv":8,"d_ff":96,
    "num_layers":6,"num_heads":4,"vocab_size":300,"num_experts":8,"num_sparse_encoder_layers":3,
    "num_sparse_decoder_layers":2)";

inline Hyperparameters Read(std::string_view base, std::string_view more = "") {
  absl::StatusOr<Hyperparameters> model = HyperparametersFromConfig(Config(base, more), kFile);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Hyperparameters{};
}

inline absl::Status Refusal(std::string_view base, std::string_view more) {
  return HyperparametersFromConfig(Config(base, more), kFile).status();
}

}  // namespace outrider
