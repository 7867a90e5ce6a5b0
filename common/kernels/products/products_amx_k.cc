// The types in super-blocks of 256 with AMX.
//
// The integer scale of a sub-block is multiplied into its weights, so that a whole super-block of
// 256 is one sum and is scaled as floats once. The products can need more than a byte and are then
// split over two planes, each multiplied as a tile of its own:
//
//   Q4_K Q5_K         scale = 8 * upper + lower, three bits each: planes upper * q and lower * q,
//                     <= 7 * 31. A 16-bit multiplication makes two of them at once, as no product
//                     leaves its byte.
//                     i = 8 * (sum over the upper plane) + (sum over the lower)
//   Q2_K              scale * q <= 15 * 3 needs the lower plane only.
//   Q6_K Q3_K IQ4_XS  scale * q, q without a sign, is 16 bits: its upper byte, signed, and its
//                     lower, unsigned.
//                     i = 256 * (sum over the upper plane) + (sum over the lower)
//                         - offset * sum of scale * sum(x)
//
// Unpacking costs 4 to 9 vector instructions for 64 weights, whatever the rows; up to 32 rows share
// it. As in products_amx.cc the stages keep a distance: a super-block is unpacked while the one
// before is multiplied and the one before that is scaled.
#include "common/kernels/products/amx_loop.h"
#include "common/kernels/products/amx_tiles.h"
#include "common/kernels/products/avx512_k_lanes.h"
#include "common/kernels/products/product_tables.h"
#include "common/kernels/products/products_amx.h"

namespace outrider {
namespace {

constexpr uint32_t kGroupRowsMax = 32;  // two tiles of activations
constexpr uint32_t kTileRows = 16;
constexpr size_t kPlaneBytes = 64 * kLineBytes;  // a byte for each weight of a super-block

// Tile registers.
constexpr int kUpper = 0;  // integers of the first 16 rows and, at + 2, of the next
constexpr int kLower = 1;
constexpr int kA = 4;  // activations: rows x 64
constexpr int kB = 6;  // weights: 16 x 64, upper and lower plane

// What one super-block leaves in memory on its way.
struct Planes {
  alignas(64) std::byte upper[kPlaneBytes];
  alignas(64) std::byte lower[kPlaneBytes];
};

struct Dots {
  alignas(64) int32_t upper[kGroupRowsMax][16];
  alignas(64) int32_t lower[kGroupRowsMax][16];
};

// Scales or minima of neighbouring sub-blocks as int16, to be multiplied with sums of activations.
template <int kWidth>
struct Factors {
  __m512i of[128 / kWidth];
};

// The sum over sub-blocks of a factor and the sum of the activations there.
static inline __m512i SideSum(const Factors<16>& factors, const int16_t* sums) {
  __m512i side = _mm512_setzero_si512();
  for (int t = 0; t < 8; ++t) {
    side = _mm512_dpwssd_epi32(side, factors.of[t], BroadcastDword(sums + 2 * t));
  }
  return side;
}

static inline __m512i SideSum(const Factors<32>& factors, const int16_t* sums) {
  // Sums of 16 activations to sums of 32, in order: at most 4064.
  const __m128i of32 = _mm_hadd_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sums)),
                                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + 8)));
  const __m512i pairs = _mm512_broadcast_i32x4(of32);
  __m512i side = _mm512_dpwssd_epi32(_mm512_setzero_si512(), factors.of[0],
                                     _mm512_shuffle_epi32(pairs, _MM_PERM_AAAA));
  side = _mm512_dpwssd_epi32(side, factors.of[1], _mm512_shuffle_epi32(pairs, _MM_PERM_BBBB));
  side = _mm512_dpwssd_epi32(side, factors.of[2], _mm512_shuffle_epi32(pairs, _MM_PERM_CCCC));
  return _mm512_dpwssd_epi32(side, factors.of[3], _mm512_shuffle_epi32(pairs, _MM_PERM_DDDD));
}

// Scales without a sign, that split into three bits and three.
template <typename LinesOfType, PanelProduct* ProductKernels::*kFewRowsOfType>
struct SplitScales {
  using Lines = LinesOfType;
  using Bytes = Fours<Lines::kWidth>;
  static constexpr PanelProduct* ProductKernels::*kFewRows = kFewRowsOfType;
  static constexpr bool kTwoPlanes = Lines::kWidth == 32;  // else scales are of four bits
  static constexpr bool kUpperIsSigned = false;

  template <int j>
  static inline void UnpackTwoHalves(const std::byte* lines, const std::byte* ahead,
                                     const Bytes& packed, Planes& planes) {
    __m512i q[8];
    FetchEighth<Lines::kPanel, j>(ahead);
    FetchEighthFar<Lines::kPanel, j>(lines + kFarAhead);
    Lines::template Load<j>(lines, q);
    if constexpr (kTwoPlanes) {
      const __m512i three = _mm512_set1_epi8(7);
      const __m512i scales = packed.of[j / 4];
      const __m512i lower = TwiceByte(_mm512_and_si512(scales, three), j % 4);
      const __m512i upper = TwiceByte(_mm512_and_si512(_mm512_srli_epi16(scales, 3), three), j % 4);
      for (int t = 0; t < 8; ++t) {
        const size_t at = (8 * j + t) * kLineBytes;
        _mm512_store_si512(planes.upper + at, _mm512_mullo_epi16(q[t], upper));
        _mm512_store_si512(planes.lower + at, _mm512_mullo_epi16(q[t], lower));
      }
    } else {
      const __m512i scale[2] = {TwiceByte(packed.of[j / 2], 2 * (j % 2)),
                                TwiceByte(packed.of[j / 2], 2 * (j % 2) + 1)};
      for (int t = 0; t < 8; ++t) {
        const size_t at = (8 * j + t) * kLineBytes;
        _mm512_store_si512(planes.lower + at, _mm512_mullo_epi16(q[t], scale[t / 4]));
      }
    }
  }

  static inline void Unpack(const std::byte* lines, const std::byte* halves, const std::byte* ahead,
                            Planes& planes) {
    Bytes packed;
    Bytes minima;
    Lines::LoadScales(lines, halves, packed, minima);
    UnpackTwoHalves<0>(lines, ahead, packed, planes);
    UnpackTwoHalves<1>(lines, ahead, packed, planes);
    UnpackTwoHalves<2>(lines, ahead, packed, planes);
    UnpackTwoHalves<3>(lines, ahead, packed, planes);
    UnpackTwoHalves<4>(lines, ahead, packed, planes);
    UnpackTwoHalves<5>(lines, ahead, packed, planes);
    UnpackTwoHalves<6>(lines, ahead, packed, planes);
    UnpackTwoHalves<7>(lines, ahead, packed, planes);
  }

  // Adds super-block b to the results of every row, which lie in `y`.
  static inline void Scale(const ActivationRows& x, uint32_t b, const std::byte* lines,
                           const std::byte* halves, const Dots& dots, float (*y)[16]) {
    Bytes packed;
    Bytes minima;
    Lines::LoadScales(lines, halves, packed, minima);
    // Negative: it is -k that is scaled.
    const __m512i zero = _mm512_setzero_si512();
    Factors<Lines::kWidth> minus;
    for (int t = 0; t < 128 / Lines::kWidth; ++t) {
      minus.of[t] = _mm512_sub_epi16(zero, TwoBytes(minima.of[t / 2], 2 * (t % 2)));
    }
    const __m512 d = LoadHalves(halves);
    const __m512 dmin = LoadHalves(halves + kHalvesBytes);
    const int16_t* const sums = x.sums + size_t{b} * 16;
    const float* const scales = x.scales + b * x.scale_stride;
    for (uint32_t r = 0; r < x.row_count; ++r) {
      const __m512i min = SideSum(minus, sums + r * x.sum_stride);
      __m512i dot = _mm512_load_si512(dots.lower[r]);
      if constexpr (kTwoPlanes) {
        dot = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(dots.upper[r]), 3), dot);
      }
      const __m512 row_scale = _mm512_set1_ps(scales[r]);
      __m512 sum = _mm512_load_ps(y[r]);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, row_scale), sum);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(min), _mm512_mul_ps(dmin, row_scale), sum);
      _mm512_store_ps(y[r], sum);
    }
  }
};

// Scales with a sign.
template <typename LinesOfType, PanelProduct* ProductKernels::*kFewRowsOfType>
struct SplitProducts {
  using Lines = LinesOfType;
  using Bytes = Fours<Lines::kWidth>;
  static constexpr PanelProduct* ProductKernels::*kFewRows = kFewRowsOfType;
  static constexpr bool kTwoPlanes = true;
  static constexpr bool kUpperIsSigned = true;

  // Elements 32j..32j+31: one sub-block, or two.
  template <int j>
  static inline void UnpackTwoHalves(const std::byte* lines, const std::byte* ahead,
                                     const Bytes& packed, Planes& planes) {
    constexpr bool kOne = Lines::kWidth == 32;
    constexpr int kFirst = kOne ? j % 4 : 2 * (j % 2);
    const __m512i scales = packed.of[kOne ? j / 4 : j / 2];
    // The scale as every other byte, the rest zero, so that vpmaddubsw multiplies either the even
    // or the odd quants: |63 * -128| = 8064.
    const __m512i even_bytes = _mm512_set1_epi16(0x00ff);
    const __m512i spread = _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                           _mm512_set1_epi8(kFirst));
    __m512i q[8];
    FetchEighth<Lines::kPanel, j>(ahead);
    FetchEighthFar<Lines::kPanel, j>(lines + kFarAhead);
    Lines::template Load<j>(lines, q);
    for (int half = 0; half < 2; ++half) {
      const __m512i scale =
          _mm512_shuffle_epi8(scales, _mm512_add_epi8(spread, _mm512_set1_epi8(kOne ? 0 : half)));
      const __m512i even_scale = _mm512_and_si512(scale, even_bytes);
      const __m512i odd_scale = _mm512_andnot_si512(even_bytes, scale);
      for (int t = 4 * half; t < 4 * half + 4; ++t) {
        // Products of 16 bits, of the even quants and of the odd. Their upper bytes go to one plane
        // and their lower bytes to the other, each to the place of its quant.
        const __m512i even = _mm512_maddubs_epi16(q[t], even_scale);
        const __m512i odd = _mm512_maddubs_epi16(q[t], odd_scale);
        const size_t at = (8 * j + t) * kLineBytes;
        _mm512_store_si512(planes.upper + at, Select(even_bytes, _mm512_srli_epi16(even, 8), odd));
        _mm512_store_si512(planes.lower + at, Select(even_bytes, even, _mm512_slli_epi16(odd, 8)));
      }
    }
  }

  static inline void Unpack(const std::byte* lines, const std::byte* halves, const std::byte* ahead,
                            Planes& planes) {
    Bytes packed;
    Bytes none;
    Lines::LoadScales(lines, halves, packed, none);
    UnpackTwoHalves<0>(lines, ahead, packed, planes);
    UnpackTwoHalves<1>(lines, ahead, packed, planes);
    UnpackTwoHalves<2>(lines, ahead, packed, planes);
    UnpackTwoHalves<3>(lines, ahead, packed, planes);
    UnpackTwoHalves<4>(lines, ahead, packed, planes);
    UnpackTwoHalves<5>(lines, ahead, packed, planes);
    UnpackTwoHalves<6>(lines, ahead, packed, planes);
    UnpackTwoHalves<7>(lines, ahead, packed, planes);
  }

  static inline void Scale(const ActivationRows& x, uint32_t b, const std::byte* lines,
                           const std::byte* halves, const Dots& dots, float (*y)[16]) {
    constexpr int kOffsetBits = __builtin_ctz(Lines::kOffset);
    static_assert(Lines::kOffset == 1 << kOffsetBits);
    Bytes packed;
    Bytes none;
    Lines::LoadScales(lines, halves, packed, none);
    Factors<Lines::kWidth> factors;
    for (int t = 0; t < 128 / Lines::kWidth; ++t) {
      factors.of[t] = TwoSignedBytes(packed.of[t / 2], 2 * (t % 2));
    }
    const __m512 d = LoadHalves(halves);
    const int16_t* const sums = x.sums + size_t{b} * 16;
    const float* const scales = x.scales + b * x.scale_stride;
    for (uint32_t r = 0; r < x.row_count; ++r) {
      const __m512i offset = SideSum(factors, sums + r * x.sum_stride);
      const __m512i products = _mm512_add_epi32(
          _mm512_slli_epi32(_mm512_load_si512(dots.upper[r]), 8), _mm512_load_si512(dots.lower[r]));
      const __m512i dot = _mm512_sub_epi32(products, _mm512_slli_epi32(offset, kOffsetBits));
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(scales[r]));
      _mm512_store_ps(y[r], _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, _mm512_load_ps(y[r])));
    }
  }
};

using Q4_K = SplitScales<Q4_KLines, &ProductKernels::q4_k>;
using Q5_K = SplitScales<Q5_KLines, &ProductKernels::q5_k>;
using Q2_K = SplitScales<Q2_KLines, &ProductKernels::q2_k>;
using Q6_K = SplitProducts<Q6_KLines, &ProductKernels::q6_k>;
using Q3_K = SplitProducts<Q3_KLines, &ProductKernels::q3_k>;
using IQ4_XS = SplitProducts<IQ4_XSLines, &ProductKernels::iq4_xs>;

template <typename Type>
struct SuperBlockTiles {
  static constexpr QuantPanel kPanel = Type::Lines::kPanel;
  static constexpr PanelProduct* ProductKernels::*kFewRows = Type::kFewRows;
  static constexpr uint32_t kRowsMax = kGroupRowsMax;
  static constexpr uint32_t kRowsLeftMin = kAmxRowsMin;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  static TileConfig Config(uint32_t rows) {
    TileConfig config;
    for (int group = 0; group < 2; ++group) {
      const uint32_t first = group * kTileRows;
      const uint32_t of_group = rows <= first              ? 1
                                : rows - first < kTileRows ? rows - first
                                                           : kTileRows;
      SetTile(config, kUpper + 2 * group, of_group, 64);
      SetTile(config, kLower + 2 * group, of_group, 64);
      SetTile(config, kA + group, of_group, 64);
      SetTile(config, kB + group, 16, 64);
    }
    return config;
  }

  template <int kGroup>
  static inline void MultiplyGroup(const ActivationRows& x, uint32_t b, int p) {
    LoadTile<kA + kGroup>(x.quants + kGroup * kTileRows * x.quant_stride + size_t{b} * 256 + 64 * p,
                          x.quant_stride);
    if constexpr (Type::kTwoPlanes && Type::kUpperIsSigned) {
      MultiplySignedSigned<kUpper + 2 * kGroup, kA + kGroup, kB>();
    } else if constexpr (Type::kTwoPlanes) {
      MultiplySignedUnsigned<kUpper + 2 * kGroup, kA + kGroup, kB>();
    }
    MultiplySignedUnsigned<kLower + 2 * kGroup, kA + kGroup, kB + 1>();
  }

  template <int kGroups>
  static inline void MultiplyBlock(const ActivationRows& x, uint32_t b, const Planes& planes,
                                   Dots& dots) {
    ZeroTile<kUpper>();
    ZeroTile<kLower>();
    if constexpr (kGroups == 2) {
      ZeroTile<kUpper + 2>();
      ZeroTile<kLower + 2>();
    }
    for (int p = 0; p < 4; ++p) {
      if constexpr (Type::kTwoPlanes) LoadTile<kB>(planes.upper + p * 16 * kLineBytes, kLineBytes);
      LoadTile<kB + 1>(planes.lower + p * 16 * kLineBytes, kLineBytes);
      MultiplyGroup<0>(x, b, p);
      if constexpr (kGroups == 2) MultiplyGroup<1>(x, b, p);
    }
    if constexpr (Type::kTwoPlanes) StoreTile<kUpper>(dots.upper, kLineBytes);
    StoreTile<kLower>(dots.lower, kLineBytes);
    if constexpr (kGroups == 2) {
      if constexpr (Type::kTwoPlanes) StoreTile<kUpper + 2>(dots.upper[kTileRows], kLineBytes);
      StoreTile<kLower + 2>(dots.lower[kTileRows], kLineBytes);
    }
  }

  template <int kGroups>
  static void Run(const ProductTile& tile) {
    const ActivationRows x = tile.x;
    const uint32_t block_count = x.inputs / kPanel.block;
    const std::byte* const halves = tile.panels + HalvesOffset(kPanel, x.inputs);
    Planes planes[2];
    Dots dots[2];
    alignas(64) float y[kRowsMax][16];
    for (uint32_t r = 0; r < x.row_count; ++r) _mm512_store_ps(y[r], _mm512_setzero_ps());
    for (uint32_t step = 0; step < block_count + 2; ++step) {
      if (step < block_count) {
        const std::byte* const lines = tile.panels + step * kBlockBytes;
        const std::byte* const ahead =
            step + 1 < block_count ? lines + kBlockBytes : tile.next_panels;
        Fetch(halves + size_t{step + 4} * (kPanel.halves * kHalvesBytes));
        Type::Unpack(lines, halves + size_t{step} * (kPanel.halves * kHalvesBytes), ahead,
                     planes[step % 2]);
      }
      if (step >= 1 && step - 1 < block_count) {
        MultiplyBlock<kGroups>(x, step - 1, planes[(step - 1) % 2], dots[(step - 1) % 2]);
      }
      if (step >= 2) {
        const uint32_t b = step - 2;
        Type::Scale(x, b, tile.panels + b * kBlockBytes,
                    halves + size_t{b} * (kPanel.halves * kHalvesBytes), dots[b % 2], y);
      }
    }
    const __mmask16 mask = _cvtu32_mask16((1u << tile.output_count) - 1);
    for (uint32_t r = 0; r < x.row_count; ++r) {
      _mm512_mask_storeu_ps(tile.out + r * tile.out_stride, mask, _mm512_load_ps(y[r]));
    }
  }

  static void RunRows(const ProductTile& tile) {
    if (tile.x.row_count > kTileRows) {
      Run<2>(tile);
    } else {
      Run<1>(tile);
    }
  }
};

template <typename Type>
void Multiply(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
              const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyByTiles<SuperBlockTiles<Type>>(panels, panel_count, output_count, x, out, out_stride);
}

}  // namespace

namespace amx {

OUTRIDER_DEFINE_PRODUCT(MultiplyQ4_K, Multiply<Q4_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ5_K, Multiply<Q5_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ6_K, Multiply<Q6_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ2_K, Multiply<Q2_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyQ3_K, Multiply<Q3_K>)
OUTRIDER_DEFINE_PRODUCT(MultiplyIQ4_XS, Multiply<IQ4_XS>)

}  // namespace amx
}  // namespace outrider
