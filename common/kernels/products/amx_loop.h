// The product of types that Kernel computes with tiles, panel by panel, rows in groups of Kernel::kRowsMax.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/products/amx_tiles.h"
#include "common/kernels/products/product_loop.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {

// Below, VNNI is faster: six to eight rows of types in blocks of 32 by up to 40 %; 8 rows of Q4_K take 66 ms to 75.
constexpr uint32_t kAmxRowsMin = 9;

// What the last group leaves over goes to VNNI below Kernel::kRowsLeftMin: its weights are in the cache by then.
template <typename Kernel>
static inline void MultiplyByTiles(const std::byte* panels, uint32_t panel_count,
                                   uint32_t output_count, const ActivationRows& x, float* out,
                                   size_t out_stride) {
  PanelProduct* const few_rows = kAvx512Products.*Kernel::kFewRows;
  if (x.row_count < kAmxRowsMin) {
    return few_rows(panels, panel_count, output_count, x, out, out_stride);
  }
  constexpr uint32_t kRowsMax = Kernel::kRowsMax;
  const size_t panel_size = PanelSize(Kernel::kPanel, x.inputs);
  uint32_t configured_rows = 0;
  for (uint32_t p = 0; p < panel_count; ++p) {
    const uint32_t outputs_left = output_count - p * kPanelOutputs;
    for (uint32_t r = 0; r < x.row_count; r += kRowsMax) {
      const uint32_t rows_left = x.row_count - r;
      const ProductTile tile = {
          .panels = panels + p * panel_size,
          .panel_size = panel_size,
          .next_panels = panels + (p + 1) * panel_size,
          .x = SomeRows(x, r, rows_left < kRowsMax ? rows_left : kRowsMax),
          .out = out + r * out_stride + size_t{p} * kPanelOutputs,
          .out_stride = out_stride,
          .output_count = outputs_left < kPanelOutputs ? outputs_left : kPanelOutputs};
      if (tile.x.row_count < Kernel::kRowsLeftMin) {
        few_rows(tile.panels, 1, tile.output_count, tile.x, tile.out, out_stride);
        continue;
      }
      if (tile.x.row_count != configured_rows) {
        configured_rows = tile.x.row_count;
        LoadConfig(Kernel::Config(configured_rows));
      }
      Kernel::RunRows(tile);
    }
  }
  ReleaseTiles();
}

}  // namespace outrider
