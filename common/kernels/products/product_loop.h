// The loops around a product kernel, the same for every instruction set: which panels and which
// rows meet. Inside, a kernel holds the results of a few rows and one or two panels in registers
// and walks the blocks once.
//
// Everything is static: each file that includes this gets its own copy, compiled for its own
// instruction set, and the linker never takes one for another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/formats/tensors/panel_layout.h"
#include "common/kernels/activations.h"

namespace outrider {

// What a kernel computes in one go: some rows times one or two panels.
struct ProductTile {
  const std::byte* panels;
  size_t panel_size;
  // Panels that are read next, for prefetching. Past the last ones lie those of the next chunk, which
  // is the same worker's as a rule; and to fetch what is not there does nothing.
  const std::byte* next_panels;
  // Where several groups of rows meet the same panels, each fetches its part of the next ones,
  // [far, far_end) of every panel: else memory would be idle while all groups but the first
  // compute.
  const std::byte* far = nullptr;
  const std::byte* far_end = nullptr;
  ActivationRows x;
  float* out;
  size_t out_stride;
  uint32_t output_count;  // of these panels, to be written
};

// Kernel::Run<rows, panels>(tile) for 1 to Kernel::kRowsMax rows: 4 or 8.
template <typename Kernel, int kPanels>
static inline void RunRows(const ProductTile& tile) {
  static_assert(Kernel::kRowsMax == 4 || Kernel::kRowsMax == 8);
  constexpr bool kManyRows = kPanels == 1 ? Kernel::kRowsMax > 4 : Kernel::kPairRowsMax > 4;
  switch (tile.x.row_count) {
    case 1:
      return Kernel::template Run<1, kPanels>(tile);
    case 2:
      return Kernel::template Run<2, kPanels>(tile);
    case 3:
      return Kernel::template Run<3, kPanels>(tile);
    case 4:
      return Kernel::template Run<4, kPanels>(tile);
    default:
      break;
  }
  if constexpr (kManyRows) {
    switch (tile.x.row_count) {
      case 5:
        return Kernel::template Run<5, kPanels>(tile);
      case 6:
        return Kernel::template Run<6, kPanels>(tile);
      case 7:
        return Kernel::template Run<7, kPanels>(tile);
      default:
        return Kernel::template Run<8, kPanels>(tile);
    }
  }
}

// Deals rows in groups of Kernel::kRowsMax, and panels in pairs where a group has at most
// Kernel::kPairRowsMax rows (0, 4 or 8): two streams from memory are faster than one, and each
// broadcast activation then serves twice. Panels outermost: one that several groups of rows need
// comes from the cache after the first.
template <typename Kernel>
static inline void MultiplyTiles(size_t panel_size, const std::byte* panels, uint32_t panel_count,
                                 uint32_t output_count, const ActivationRows& x, float* out,
                                 size_t out_stride) {
  const uint32_t group_count = (x.row_count + Kernel::kRowsMax - 1) / Kernel::kRowsMax;
  const size_t far_size =
      group_count > 1 ? (panel_size / group_count + kLineBytes - 1) / kLineBytes * kLineBytes : 0;
  const uint32_t rows_max = x.row_count < Kernel::kRowsMax ? x.row_count : Kernel::kRowsMax;
  const uint32_t step = rows_max <= Kernel::kPairRowsMax ? 2 : 1;
  for (uint32_t p = 0; p < panel_count;) {
    const uint32_t count = step <= panel_count - p ? step : panel_count - p;
    const uint32_t next = p + count;
    const uint32_t outputs_left = output_count - p * kPanelOutputs;
    for (uint32_t r = 0; r < x.row_count; r += Kernel::kRowsMax) {
      const uint32_t rows_left = x.row_count - r;
      const bool last_group = rows_left <= Kernel::kRowsMax;
      const std::byte* const far = panels + next * panel_size + r / Kernel::kRowsMax * far_size;
      const ProductTile tile = {
          .panels = panels + p * panel_size,
          .panel_size = panel_size,
          .next_panels = panels + (last_group ? next : p) * panel_size,
          .far = far,
          .far_end = far + far_size,
          .x = SomeRows(x, r, rows_left < Kernel::kRowsMax ? rows_left : Kernel::kRowsMax),
          .out = out + r * out_stride + size_t{p} * kPanelOutputs,
          .out_stride = out_stride,
          .output_count =
              outputs_left < count * kPanelOutputs ? outputs_left : count * kPanelOutputs};
      if constexpr (Kernel::kPairRowsMax > 0) {
        if (count == 2) {
          RunRows<Kernel, 2>(tile);
          continue;
        }
      }
      RunRows<Kernel, 1>(tile);
    }
    p += count;
  }
}

// A PanelProduct with a name that other files see.
#define OUTRIDER_DEFINE_PRODUCT(name, ...)                                        \
  void name(const std::byte* panels, uint32_t panel_count, uint32_t output_count, \
            const ActivationRows& x, float* out, size_t out_stride) {             \
    return __VA_ARGS__(panels, panel_count, output_count, x, out, out_stride);    \
  }

}  // namespace outrider
