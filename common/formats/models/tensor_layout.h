// The tensors a model of given hyperparameters is made of: GGUF name, shape, and whether it can do
// without. Readers of every format hold a file against this list, so that the forward pass may take
// any tensor it names for granted.
//
// Names are llama.cpp's where it has any. Encoder-decoder models carry enc. and dec. in front as
// its T5 does:
//   T5      enc.blk.N.{attn_norm, attn_q, attn_k, attn_v, attn_o, attn_rel_b, ffn_norm, ffn_gate,
//           ffn_up, ffn_down}, enc.output_norm, dec.blk.N.{the same, cross_attn_norm, cross_attn_q,
//           cross_attn_k, cross_attn_v, cross_attn_o}, dec.output_norm
//   Switch  as T5; a block with experts has ffn_gate_inp, ffn_up_exps and ffn_down_exps instead of
//           ffn_up and ffn_down
//   BART    everything with biases; {enc,dec}.position_embd (row p is position p: the two rows
//           that Hugging Face keeps in front are dropped) and {enc,dec}.token_embd_norm. Its norms
//           follow what they belong to, and are called as llama.cpp calls BERT's: attn_output_norm,
//           cross_attn_output_norm, layer_output_norm. output.bias is added to the logits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/models/hyperparameters.h"

namespace outrider {

struct ExpectedTensor {
  std::string name;
  std::vector<uint64_t> dims;  // dims[0] is contiguous
  bool required;
};

// In the order a forward pass meets them.
std::vector<ExpectedTensor> TensorLayout(const Hyperparameters& hyperparameters);

struct FoundTensor {
  std::string_view name;
  std::span<const uint64_t> dims;
  std::string_view stored_name;  // as the file calls it
};

// InvalidArgument for a tensor the layout does not know or whose shape differs, NotFound for a
// required one that is missing. Experts may lie in one tensor (blk.N.ffn_up_exps.weight) or in one
// each (blk.N.ffn_up.E.weight). Messages start with `name`, the path; `stored_name` says how the
// file would call a missing tensor.
using StoredName = std::function<std::string(std::string_view)>;
absl::Status CheckTensors(const Hyperparameters& hyperparameters,
                          std::span<const FoundTensor> tensors, const std::string& name,
                          const StoredName& stored_name = nullptr);

// "[64, 300]"
std::string FormatDims(std::span<const uint64_t> dims);

}  // namespace outrider
