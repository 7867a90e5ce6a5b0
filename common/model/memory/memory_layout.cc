#include "common/model/memory/memory_layout.h"

#include <algorithm>
#include <variant>

#include "common/base/buffer.h"
#include "common/base/check.h"

namespace outrider {

namespace {

LayerKeeps KeepsOf(const AttentionSpec& shape) {
  if (shape.cells_of) return {.attention_of = shape.cells_of};
  return {.attention = AttentionCells{.kv_head_count = shape.kv_head_count,
                                      .key_length = shape.key_length,
                                      .value_length = shape.value_length,
                                      .window = shape.window}};
}

LayerKeeps KeepsOf(const GuestMixer& guest) {
  return guest.keeps;
}

}  // namespace

std::vector<LayerKeeps> KeepsOf(const ModelSpec& spec) {
  std::vector<LayerKeeps> layers;
  for (const LayerSpec& layer : spec.layers) {
    layers.push_back(std::visit([](const auto& mixer) { return KeepsOf(mixer); }, layer.mixer));
    if (!layer.cross_attention) continue;
    const CrossAttentionSpec& shape = *layer.cross_attention;
    layers.back().encoder = AttentionCells{.kv_head_count = shape.kv_head_count,
                                           .key_length = shape.key_length,
                                           .value_length = shape.value_length,
                                           .window = std::nullopt};
  }
  return layers;
}

MemoryLayout::MemoryLayout(std::span<const LayerKeeps> layers, uint32_t encoder_length_max)
    : keeps_(layers.begin(), layers.end()), places_(layers.size()) {
  for (uint32_t layer = 0; layer < layer_count(); ++layer) AddCells(layer);
  cell_group_count_ = group_count();
  for (uint32_t layer = 0; layer < layer_count(); ++layer) AddFixed(layer, encoder_length_max);
  OUTRIDER_CHECK(!groups_.empty(), "some layer of a model keeps something");
}

void MemoryLayout::AddCells(uint32_t layer) {
  const LayerKeeps& keeps = keeps_[layer];
  Place& place = places_[layer];
  if (keeps.attention) {
    const uint32_t group = WindowGroup(keeps.attention->window.value_or(PageGroup::kNoWindow));
    place.attention = AddHeads(group, *keeps.attention);
  } else if (keeps.attention_of) {
    OUTRIDER_CHECK(*keeps.attention_of < layer, "cells are looked at once they are written");
    place.attention = places_[*keeps.attention_of].attention;
  }
  if (keeps.recurrent) {
    input_group_ = WindowGroup(1);
    place.input_at =
        AddPiece(*input_group_, keeps.recurrent->input_length * sizeof(float)) / sizeof(float);
  }
  if (keeps.convolution) {
    const ConvolutionTail& tail = *keeps.convolution;
    place.convolution_group = WindowGroup(tail.kernel);
    place.convolution_at =
        AddPiece(place.convolution_group, tail.input_length * sizeof(float)) / sizeof(float);
  }
}

void MemoryLayout::AddFixed(uint32_t layer, uint32_t encoder_length_max) {
  const LayerKeeps& keeps = keeps_[layer];
  if (keeps.recurrent) {
    Group& bases = groups_[FixedGroup(base_group_, 1)];
    places_[layer].base_at = bases.page_bytes / sizeof(float);
    const size_t bytes =
        size_t{keeps.recurrent->part_count} * keeps.recurrent->part_length * sizeof(float);
    bases.page_bytes += (bytes + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
  }
  if (keeps.encoder) {
    const auto pages = static_cast<uint32_t>(PagesFor(encoder_length_max));
    places_[layer].encoder = AddHeads(FixedGroup(encoder_group_, pages), *keeps.encoder);
  }
}

uint32_t MemoryLayout::WindowGroup(uint32_t window) {
  for (uint32_t group = 0; group < group_count(); ++group) {
    if (groups_[group].shape.window == window) return group;
  }
  groups_.push_back({.shape = {.window = window}, .page_bytes = 0, .pieces = {}});
  return group_count() - 1;
}

uint32_t MemoryLayout::FixedGroup(std::optional<uint32_t>& group, uint32_t pages_each) {
  if (!group) {
    OUTRIDER_CHECK(pages_each > 0, "whoever looks at an encoder says how long it may be");
    groups_.push_back({.shape = {.pages_each = pages_each}, .page_bytes = 0, .pieces = {}});
    group = group_count() - 1;
  }
  return *group;
}

HeadCells MemoryLayout::AddHeads(uint32_t group, const AttentionCells& cells) {
  const size_t at = groups_[group].page_bytes / sizeof(uint16_t);
  for (const uint32_t length : {cells.key_length, cells.value_length}) {
    for (uint32_t head = 0; head < cells.kv_head_count; ++head) {
      AddPiece(group, length * sizeof(uint16_t));
    }
  }
  return {group, at, cells};
}

size_t MemoryLayout::AddPiece(uint32_t group, size_t bytes) {
  // The slots of a piece are a whole number of cache lines, whatever the length.
  static_assert(kPageTokens * sizeof(uint16_t) % kVectorAlignment == 0);
  Group& to = groups_[group];
  const size_t at = to.page_bytes;
  to.pieces.push_back({at, bytes});
  to.page_bytes += kPageTokens * bytes;
  return at;
}

}  // namespace outrider
