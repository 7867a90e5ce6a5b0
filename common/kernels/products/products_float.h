// F32, F16 and BF16 for any kind of lanes (lanes_*.h). Sums of 32 elements start afresh
// (NUMERICS.md, section 4), so the next segment's chain of fmas runs beside this one's: their
// latency costs little even for one row.
//
// In an anonymous namespace, as the lanes are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/formats/tensors/panel_layout.h"
#include "common/kernels/products/product_loop.h"
#include "common/kernels/unroll.h"

namespace outrider {
namespace {

// The element k of sixteen outputs.
struct F32Elements {
  static constexpr size_t kBytes = 4 * kPanelOutputs;
  template <class Lanes>
  static Lanes Load(const std::byte* at) {
    return Lanes::Load(reinterpret_cast<const float*>(at));
  }
};

struct F16Elements {
  static constexpr size_t kBytes = 2 * kPanelOutputs;
  template <class Lanes>
  static Lanes Load(const std::byte* at) {
    return Lanes::LoadHalves(reinterpret_cast<const uint16_t*>(at));
  }
};

struct BF16Elements {
  static constexpr size_t kBytes = 2 * kPanelOutputs;
  template <class Lanes>
  static Lanes Load(const std::byte* at) {
    return Lanes::LoadUpperHalves(reinterpret_cast<const uint16_t*>(at));
  }
};

// Registers holds Lanes, and kRowsMax and kPairRowsMax as product_loop.h asks for them: what fits
// the registers of an instruction set.
template <class Registers, class Elements>
struct FloatKernel {
  using Lanes = typename Registers::Lanes;
  static constexpr uint32_t kRowsMax = Registers::kRowsMax;
  static constexpr uint32_t kPairRowsMax = Registers::kPairRowsMax;
  static constexpr uint32_t kSegment = 32;
  static constexpr size_t kFetchAhead = 2048;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    Lanes y[kPanels][kRows];
    Clear(y);
    uint32_t begin = 0;
    for (; tile.x.inputs - begin >= kSegment; begin += kSegment) {
      AddSegment(tile, begin, kSegment, y);
    }
    if (begin < tile.x.inputs) AddSegment(tile, begin, tile.x.inputs - begin, y);
    Store(y, tile);
  }

 private:
  template <int kPanels, int kRows>
  static inline void Clear(Lanes (&y)[kPanels][kRows]) {
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) {
      OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) y[p][r] = Lanes::Zero();
    }
  }

  template <int kPanels, int kRows>
  static inline void AddSegment(const ProductTile& tile, uint32_t begin, uint32_t count,
                                Lanes (&y)[kPanels][kRows]) {
    Lanes s[kPanels][kRows];
    Clear(s);
    const std::byte* const first = tile.panels + begin * Elements::kBytes;
    for (uint32_t k = 0; k < count; ++k) {
      Lanes w[kPanels];
      OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) {
        const std::byte* const at = first + k * Elements::kBytes + p * tile.panel_size;
        if (k * Elements::kBytes % kLineBytes == 0) __builtin_prefetch(at + kFetchAhead);
        w[p] = Elements::template Load<Lanes>(at);
      }
      OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
        const Lanes x = Lanes::Of(tile.x.values[r * tile.x.value_stride + begin + k]);
        OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) s[p][r] = Fma(w[p], x, s[p][r]);
      }
    }
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) {
      OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) y[p][r] = y[p][r] + s[p][r];
    }
  }

  template <int kPanels, int kRows>
  static inline void Store(const Lanes (&y)[kPanels][kRows], const ProductTile& tile) {
    OUTRIDER_UNROLL for (int p = 0; p < kPanels; ++p) {
      const uint32_t left = tile.output_count - p * kPanelOutputs;
      OUTRIDER_UNROLL for (int r = 0; r < kRows; ++r) {
        float* const out = tile.out + r * tile.out_stride + p * kPanelOutputs;
        if (left >= kPanelOutputs) {
          y[p][r].Store(out);
        } else {
          y[p][r].StoreFirst(left, out);
        }
      }
    }
  }
};

template <class Registers, class Elements>
void MultiplyFloats(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                    const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<FloatKernel<Registers, Elements>>(
      PlainPanelSize(Elements::kBytes / kPanelOutputs, x.inputs), panels, panel_count, output_count,
      x, out, out_stride);
}

}  // namespace
}  // namespace outrider
