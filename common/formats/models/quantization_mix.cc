#include "common/formats/models/quantization_mix.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/check.h"

namespace outrider {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// 3 for "blk.3.attn_v.weight" and "dec.blk.3.attn_v.weight".
std::optional<uint32_t> BlockIndex(std::string_view name) {
  const size_t block = name.find("blk.");
  if (block == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(block + 4);
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() ? std::optional(index) : std::nullopt;
}

// The first and last eighth of the blocks, and every third between them: half of all, where errors
// hurt most.
bool DeservesMoreBits(uint32_t block, uint32_t block_count) {
  const uint32_t eighth = block_count / 8;
  return block < eighth || block >= 7 * block_count / 8 || (block - eighth) % 3 == 2;
}

bool IsOutputMatrix(std::string_view name, const Hyperparameters& numbers) {
  return name == "output.weight" || (numbers.tied_embeddings && name == "token_embd.weight");
}

// Of the first block; models whose blocks differ are rare.
bool FourQueriesShareAKey(const Hyperparameters& numbers) {
  return !numbers.head_count.empty() && !numbers.head_count_kv.empty() &&
         numbers.head_count[0] >= 4 * numbers.head_count_kv[0];
}

// Llama's 70B and Qwen's 72B: eight queries share a value, so its matrices are few bytes.
bool IsOfSeventyBillion(const Hyperparameters& numbers) {
  if (numbers.block_count != 80) return false;
  return numbers.architecture == Architecture::kQwen2 ||
         (numbers.architecture == Architecture::kLlama &&
          numbers.head_count != numbers.head_count_kv);
}

TensorType WantedType(const ModelTensor& tensor, const Hyperparameters& numbers,
                      TensorType wanted) {
  const std::string_view name = tensor.name;
  const bool plain_or_eight_bits = wanted == TensorType::kF32 || wanted == TensorType::kF16 ||
                                   wanted == TensorType::kBF16 || wanted == TensorType::kQ8_0;
  if (!plain_or_eight_bits && IsOutputMatrix(name, numbers)) return TensorType::kQ6_K;
  const bool five_bits = wanted == TensorType::kQ5_K;
  const bool nonlinear = wanted == TensorType::kIQ4_XS;
  if (wanted != TensorType::kQ4_K && !five_bits && !nonlinear) return wanted;

  const bool value_projection = Contains(name, "attn_v.") || Contains(name, "attn_qkv.");
  if (numbers.experts.count == 8) {  // shared by eight experts: few bytes, felt everywhere
    if (value_projection || Contains(name, "attn_k.")) return TensorType::kQ8_0;
    if (Contains(name, "attn_output.") && !five_bits) return TensorType::kQ5_K;
  }
  const bool down_projection = Contains(name, "ffn_down");
  const std::optional<uint32_t> block = BlockIndex(name);
  if (nonlinear) {
    const bool early = block && *block < numbers.block_count / 8;
    const bool more_bits =
        (value_projection && FourQueriesShareAKey(numbers)) || (down_projection && early);
    return more_bits ? TensorType::kQ5_K : wanted;
  }
  const bool sensitive = value_projection || down_projection;
  if (block && sensitive && DeservesMoreBits(*block, numbers.block_count)) return TensorType::kQ6_K;
  if (value_projection && IsOfSeventyBillion(numbers)) return TensorType::kQ5_K;
  return wanted;
}

// What takes its place where rows are no whole super-blocks.
TensorType FallbackOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_K:
      return TensorType::kQ5_0;
    case TensorType::kQ5_K:
      return TensorType::kQ5_1;
    case TensorType::kQ6_K:
      return TensorType::kQ8_0;
    case TensorType::kIQ4_XS:
      return TensorType::kIQ4_NL;
    default:
      return type;
  }
}

}  // namespace

bool StaysF32(const ModelTensor& tensor) {
  const std::string_view name = tensor.name;
  return tensor.dims.size() == 1 || name.ends_with("_norm.weight") || name.ends_with(".bias") ||
         Contains(name, "ffn_gate_inp") || Contains(name, "position_embd") ||
         Contains(name, "attn_rel_b");
}

TensorType MixedType(const ModelTensor& tensor, const Hyperparameters& numbers, TensorType wanted) {
  if (StaysF32(tensor)) return TensorType::kF32;
  const TensorType type = WantedType(tensor, numbers, wanted);
  const auto fits = [&](TensorType candidate) {
    return tensor.dims[0] % Info(candidate).block_elements == 0;
  };
  if (fits(type)) return type;
  return fits(FallbackOf(type)) ? FallbackOf(type) : TensorType::kF16;
}

uint32_t FileTypeNumber(TensorType wanted) {
  switch (wanted) {
    case TensorType::kF32:
      return 0;
    case TensorType::kF16:
      return 1;
    case TensorType::kQ4_0:
      return 2;
    case TensorType::kQ8_0:
      return 7;
    case TensorType::kQ4_K:
      return 15;  // Q4_K_M
    case TensorType::kQ5_K:
      return 17;  // Q5_K_M
    case TensorType::kQ6_K:
      return 18;
    case TensorType::kIQ4_XS:
      return 30;
    case TensorType::kBF16:
      return 32;
    default:
      OUTRIDER_CHECK(false, "callers convert to the types above only");
  }
}

}  // namespace outrider
