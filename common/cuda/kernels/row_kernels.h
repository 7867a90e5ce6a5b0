// What is done to rows element by element: embeddings looked up, gates, heads turned and kept,
// cells copied. NUMERICS.md, sections 5 and 6.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/quant_blocks.h"

namespace outrider::gpu {

enum class PanelKind : uint32_t { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_K, kQ5_K, kQ6_K };

// One weight as a float.
OUTRIDER_HD float ElementOf(PanelKind kind, const std::byte* panel, uint32_t inputs, uint32_t n,
                            uint32_t k) {
  const size_t at = size_t{k} * kPanelOutputs + n;
  switch (kind) {
    case PanelKind::kF32:
      return reinterpret_cast<const float*>(panel)[at];
    case PanelKind::kF16:
      return WidenHalf(reinterpret_cast<const uint16_t*>(panel)[at]);
    case PanelKind::kBf16:
      return WidenBfloat16(reinterpret_cast<const uint16_t*>(panel)[at]);
    case PanelKind::kQ8_0:
      return Q8_0Block::Element(BlockOf<Q8_0Block>(panel, inputs, k / 32), n, k % 32);
    case PanelKind::kQ4_0:
      return Q4_0Block::Element(BlockOf<Q4_0Block>(panel, inputs, k / 32), n, k % 32);
    case PanelKind::kQ4_K:
      return Q4_KBlock::Element(BlockOf<Q4_KBlock>(panel, inputs, k / 256), n, k % 256);
    case PanelKind::kQ5_K:
      return Q5_KBlock::Element(BlockOf<Q5_KBlock>(panel, inputs, k / 256), n, k % 256);
    case PanelKind::kQ6_K:
      return Q6_KBlock::Element(BlockOf<Q6_KBlock>(panel, inputs, k / 256), n, k % 256);
  }
  return 0.0f;
}

// A table that is looked up by the row, in panels.
struct PanelTable {
  const std::byte* panels;
  size_t panel_bytes;
  PanelKind kind;

  OUTRIDER_HD float At(uint32_t row, uint32_t inputs, uint32_t k) const {
    return ElementOf(kind, panels + row / kPanelOutputs * panel_bytes, inputs, row % kPanelOutputs,
                     k);
  }
};

// What enters the first layer. grid: rows, length / 256 rounded up
struct EmbedRows {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kGiven = UINT32_MAX;  // as a token: the row is in `out` already

  PanelTable tokens;
  PanelTable positions;      // no panels: none are learned
  const uint32_t* token;     // [rows], or kGiven
  const uint32_t* position;  // [rows]
  float* out;                // [rows, length]
  uint32_t length;

  OUTRIDER_HD uint32_t grid_y() const { return (length + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    block.Each([&](uint32_t t) {
      const uint32_t k = block.y() * kThreads + t;
      if (k >= length) return;
      float& to = out[row * length + k];
      float value = token[row] == kGiven ? to : tokens.At(token[row], length, k);
      if (positions.panels != nullptr) value = value + positions.At(position[row], length, k);
      to = value;
    });
  }
};

enum class Gate : uint32_t { kSiluGated, kGeluTanhGated, kGeluTanh, kSilu };

// up = activation(gate) * up, or activation(up). grid: rows, length / 256 rounded up
struct GateRows {
  static constexpr uint32_t kThreads = 256;

  const float* gate;  // [rows, length]; not looked at where nothing is gated
  float* up;          // [rows, length]
  uint32_t length;
  Gate kind;

  OUTRIDER_HD uint32_t grid_y() const { return (length + kThreads - 1) / kThreads; }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    block.Each([&](uint32_t t) {
      const uint32_t i = block.y() * kThreads + t;
      if (i >= length) return;
      const size_t at = size_t{block.x()} * length + i;
      if (kind == Gate::kGeluTanh) {
        up[at] = GeluTanh(up[at]);
      } else if (kind == Gate::kSilu) {
        up[at] = Silu(up[at]);
      } else {
        const float g = kind == Gate::kSiluGated ? Silu(gate[at]) : GeluTanh(gate[at]);
        up[at] = g * up[at];
      }
    });
  }
};

// Where a row's keys and values go.
struct CellPlace {
  uint16_t* page;
  uint32_t slot;
};

// Queries and keys turn by their row's position, and keys and values are kept as halves, in the
// cells the rows have. grid: rows, head_count + 2 * kv_head_count
struct PlaceHeads {
  static constexpr uint32_t kThreads = 64;

  float* query;          // [rows, head_count, key_length]
  const float* key;      // [rows, kv_head_count, key_length]; null: another layer's are looked at
  const float* value;    // [rows, kv_head_count, value_length]
  const float* cosines;  // [rows, pair_count]
  const float* sines;    // [rows, pair_count]
  const CellPlace* places;  // [rows]
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t key_length;
  uint32_t value_length;
  uint32_t pair_count;  // 0: nothing turns
  bool interleaved;     // pairs are (2i, 2i + 1), otherwise (i, i + pair_count)
  size_t keys_at;       // of slot 0 of the first head, in halves from a page's beginning
  size_t values_at;
  uint32_t slot_count;  // of a page

  OUTRIDER_HD uint32_t grid_y() const {
    return head_count + (key == nullptr ? 0 : 2 * kv_head_count);
  }
  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const size_t row = block.x();
    const uint32_t head = block.y();
    if (head < head_count) {
      float* const from = query + (row * head_count + head) * key_length;
      block.Each([&](uint32_t t) {
        for (uint32_t i = t; i < pair_count; i += kThreads) {
          const Pair<float> turned = Turn(from, row, i);
          from[FirstOf(i)] = turned.first;
          from[SecondOf(i)] = turned.second;
        }
      });
      return;
    }
    const uint32_t kv_head = (head - head_count) % kv_head_count;
    if (head < head_count + kv_head_count) {
      KeepKey(block, row, kv_head);
    } else {
      const float* const from = value + (row * kv_head_count + kv_head) * value_length;
      uint16_t* const to = At(values_at, row, kv_head, value_length);
      block.Each([&](uint32_t t) {
        for (uint32_t i = t; i < value_length; i += kThreads) to[i] = NarrowToHalf(from[i]);
      });
    }
  }

 private:
  OUTRIDER_HD uint32_t FirstOf(uint32_t pair) const { return interleaved ? 2 * pair : pair; }
  OUTRIDER_HD uint32_t SecondOf(uint32_t pair) const {
    return interleaved ? 2 * pair + 1 : pair + pair_count;
  }

  OUTRIDER_HD Pair<float> Turn(const float* head, size_t row, uint32_t pair) const {
    const float c = cosines[row * pair_count + pair], s = sines[row * pair_count + pair];
    const float x0 = head[FirstOf(pair)], x1 = head[SecondOf(pair)];
    return {x0 * c - x1 * s, x0 * s + x1 * c};
  }

  OUTRIDER_HD uint16_t* At(size_t first, size_t row, uint32_t kv_head, uint32_t length) const {
    const CellPlace& place = places[row];
    return place.page + first + (size_t{kv_head} * slot_count + place.slot) * length;
  }

  template <typename Block>
  OUTRIDER_HD void KeepKey(Block& block, size_t row, uint32_t kv_head) const {
    const float* const from = key + (row * kv_head_count + kv_head) * key_length;
    uint16_t* const to = At(keys_at, row, kv_head, key_length);
    block.Each([&](uint32_t t) {
      for (uint32_t i = t; i < pair_count; i += kThreads) {
        const Pair<float> turned = Turn(from, row, i);
        to[FirstOf(i)] = NarrowToHalf(turned.first);
        to[SecondOf(i)] = NarrowToHalf(turned.second);
      }
      for (uint32_t i = 2 * pair_count + t; i < key_length; i += kThreads) {
        to[i] = NarrowToHalf(from[i]);
      }
    });
  }
};

// What of a slot lies where in a page, in halves.
struct SlotPiece {
  size_t at;
  size_t length;  // of one slot
};

// Slots of one page to another, all pieces of them. grid: pieces
struct CopySlots {
  static constexpr uint32_t kThreads = 128;

  const SlotPiece* pieces;
  const uint16_t* from;  // pages
  uint16_t* to;
  uint32_t from_slot;
  uint32_t to_slot;
  uint32_t slot_count;

  OUTRIDER_HD size_t SharedBytes() const { return 0; }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const SlotPiece& piece = pieces[block.x()];
    const uint16_t* const read = from + piece.at + from_slot * piece.length;
    uint16_t* const write = to + piece.at + to_slot * piece.length;
    block.Each([&](uint32_t t) {
      for (size_t i = t; i < slot_count * piece.length; i += kThreads) write[i] = read[i];
    });
  }
};

}  // namespace outrider::gpu
