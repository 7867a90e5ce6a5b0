// Rows of activations as kernels of a GPU want them: floats one row after another, as they are; int8
// in tiles of eight rows, so that what the lanes of a warp load of a block of inputs (RowFragment in
// matrix_fragments.h) lies together:
//
//   quants   32 inputs of row 0, of row 1, ... of row 7; then the next 32 inputs. Of the 32, four
//            and the four that are 16 on lie together, for a lane has these of a tile
//   scales   those of four blocks of row 0, of row 1, ...; then the next four
//   sums     of every 16 quants: those of 256 inputs of row 0, of row 1, ...
//
// Rows of a view may begin anywhere in a tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/matrix_fragments.h"

namespace outrider::gpu {

struct GpuRows {
  uint32_t row_count = 0;
  uint32_t inputs = 0;            // elements of a row
  const float* values = nullptr;  // of row 0; null where there are quants
  size_t value_stride = 0;
  // Of values, for tensor cores (split_products.h), of the same stride; null: they are not there.
  const uint32_t* terms = nullptr;
  const int8_t* quants = nullptr;  // of the tile that row 0 is in, as are the others; on 16 bytes
  const float* scales = nullptr;
  const int16_t* sums = nullptr;
  uint32_t block = 0;       // elements that have a scale: 32 or 256
  uint32_t first_slot = 0;  // of row 0 in its tile

  // Rows [first, first + count).
  OUTRIDER_HD GpuRows Some(uint32_t first, uint32_t count) const;
};

// Where things are in tiles of rows that have so many inputs, counted from their beginning.
struct RowTiles {
  uint32_t inputs;
  uint32_t block;

  static constexpr uint32_t kQuants = 32, kScales = 4, kSums = 16;  // of a row that lie together
  static constexpr uint32_t kTilesTogether = 4;                     // that a warp may go through

  // Tiles that so many rows take room for, wherever in a tile they begin, and with what a warp may
  // read beyond the last.
  static constexpr size_t Count(size_t row_count) {
    return row_count / kTileRows + 1 + kTilesTogether;
  }

  OUTRIDER_HD size_t QuantsOfTile() const { return size_t{inputs} * kTileRows; }
  OUTRIDER_HD size_t ScalesOfTile() const {
    return size_t{(inputs / block + kScales - 1) / kScales} * (kScales * kTileRows);
  }
  OUTRIDER_HD size_t SumsOfTile() const {
    return size_t{(inputs / 16 + kSums - 1) / kSums} * (kSums * kTileRows);
  }
  OUTRIDER_HD size_t Quant(uint32_t row, uint32_t k) const {
    const uint32_t half = k / 16 % 2, four = k / 4 % 4;
    return row / kTileRows * QuantsOfTile() +
           InTile(row, k / kQuants * kQuants + 8 * four + 4 * half + k % 4, kQuants);
  }
  OUTRIDER_HD size_t Scale(uint32_t row, uint32_t b) const {
    return row / kTileRows * ScalesOfTile() + InTile(row, b, kScales);
  }
  OUTRIDER_HD size_t Sum(uint32_t row, uint32_t i) const {
    return row / kTileRows * SumsOfTile() + InTile(row, i, kSums);
  }

 private:
  static OUTRIDER_HD size_t InTile(uint32_t row, uint32_t i, uint32_t together) {
    return size_t{i / together} * (together * kTileRows) + row % kTileRows * together +
           i % together;
  }
};

OUTRIDER_HD GpuRows GpuRows::Some(uint32_t first, uint32_t count) const {
  GpuRows rows = *this;
  rows.row_count = count;
  if (quants == nullptr) {
    rows.values += first * value_stride;
    if (terms != nullptr) rows.terms += first * value_stride;
    return rows;
  }
  const RowTiles tiles = {inputs, block};
  const uint32_t row = first_slot + first, tile = row / kTileRows;
  rows.quants += tile * tiles.QuantsOfTile();
  rows.scales += tile * tiles.ScalesOfTile();
  rows.sums += tile * tiles.SumsOfTile();
  rows.first_slot = row % kTileRows;
  return rows;
}

}  // namespace outrider::gpu
