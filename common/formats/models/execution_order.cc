#include "common/formats/models/execution_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <tuple>

namespace outrider {
namespace {

// What stands outside the blocks, in the order it is needed.
constexpr std::array<std::string_view, 6> kBeforeBlocks = {
    "rope_freqs", "rope_factors_long", "rope_factors_short",
    "token_embd", "position_embd",     "token_embd_norm"};
constexpr std::array<std::string_view, 2> kAfterBlocks = {"output_norm", "output"};

// What stands inside a block, in the order of the forward pass.
constexpr auto kInsideBlock = std::to_array<std::string_view>({
    "attn_norm",
    "attn_qkv",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_q_norm",
    "attn_k_norm",
    "attn_rel_b",
    "attn_sinks",
    "attn_output",
    "attn_o",
    "attn_norm_2",
    "post_attention_norm",
    "cross_attn_norm",
    "cross_attn_q",
    "cross_attn_k",
    "cross_attn_v",
    "cross_attn_rel_b",
    "cross_attn_o",
    "ffn_norm",
    "ffn_gate_inp",
    "ffn_gate",
    "ffn_gate_exps",
    "ffn_up",
    "ffn_up_exps",
    "ffn_down",
    "ffn_down_exps",
    "ffn_gate_inp_shexp",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "post_ffw_norm",
});

enum class Part : uint8_t { kStart, kEncoder, kDecoder, kEnd, kUnknown };

// Sorts as the pass goes: part of the model, stage in it (before, inside, after the blocks), block,
// tensor in the block.
using Place = std::tuple<Part, int, uint64_t, size_t>;

template <size_t n>
size_t IndexIn(const std::array<std::string_view, n>& names, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Place PlaceOf(std::string_view name) {
  constexpr Place kUnknown{Part::kUnknown, 0, 0, 0};
  Part part = Part::kDecoder;
  const bool encoder = TakePrefix(name, "enc.");
  if (encoder) part = Part::kEncoder;
  const bool sided = encoder || TakePrefix(name, "dec.");

  if (TakePrefix(name, "blk.")) {
    uint64_t block = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), block);
    if (error != std::errc() || end == name.data() + name.size() || *end != '.') return kUnknown;
    name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
    return {part, 1, block, IndexIn(kInsideBlock, name.substr(0, name.find('.')))};
  }
  const std::string_view stem = name.substr(0, name.find('.'));
  if (const size_t index = IndexIn(kBeforeBlocks, stem); index < kBeforeBlocks.size()) {
    return {sided ? part : Part::kStart, 0, 0, index};
  }
  if (const size_t index = IndexIn(kAfterBlocks, stem); index < kAfterBlocks.size()) {
    return {sided ? part : Part::kEnd, 2, 0, index};
  }
  return kUnknown;
}

}  // namespace

std::vector<const ModelTensor*> ExecutionOrder(std::span<const ModelTensor> tensors) {
  std::vector<std::pair<Place, const ModelTensor*>> placed;
  placed.reserve(tensors.size());
  for (const ModelTensor& tensor : tensors) placed.emplace_back(PlaceOf(tensor.name), &tensor);
  std::ranges::stable_sort(placed, {}, [](const auto& entry) { return entry.first; });
  std::vector<const ModelTensor*> order;
  order.reserve(placed.size());
  for (const auto& [place, tensor] : placed) order.push_back(tensor);
  return order;
}

}  // namespace outrider
