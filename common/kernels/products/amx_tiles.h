// The tile registers of AMX. Ours are little wrappers because GCC 12's intrinsics do not tell the
// compiler what memory they read: a configuration or a plane of weights that was just stored could
// be left out or moved behind its use. Static, as in product_loop.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/formats/tensors/panel_layout.h"

namespace outrider {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

static inline void SetTile(TileConfig& config, int tile, uint32_t rows, uint32_t row_bytes) {
  config.rows[tile] = static_cast<uint8_t>(rows);
  config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
}

static inline void LoadConfig(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

static inline void ReleaseTiles() {
  asm volatile("tilerelease" : : : "memory");
}

// Row r of the tile from base + r * stride.
template <int kTile>
static inline void LoadTile(const void* base, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
static inline void StoreTile(void* base, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
static inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// c[m, n] += the sum over k of a[m, k] * b[k / 4, 4n + k % 4], int8 into int32.
template <int kC, int kA, int kB>
static inline void MultiplySignedSigned() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

// The same with b unsigned.
template <int kC, int kA, int kB>
static inline void MultiplySignedUnsigned() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

}  // namespace outrider
