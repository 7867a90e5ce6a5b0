// Q4_K and Q6_K with AVX2: vpmaddubsw into int16 as far as that holds, then vpmaddwd with the
// integer scale of the sub-block in both of its halves, which scales and widens at once.
#include "common/kernels/products/avx2_lanes.h"
#include "common/kernels/products/products_avx2.h"

namespace outrider {
namespace {

template <int kRows>
struct RowBlocks {
  const int8_t* quants[kRows];
  const int16_t* sums[kRows];
  const float* scales;  // one per row
};

// Byte i of every lane's dword, zero-extended to int16 and twice. (A shuffle index with its top bit
// set, 0x80, gives zero; the others count through 16 bytes, so each half of the register anew.)
static inline __m256i TwiceByte(__m256i bytes, int i) {
  const __m256i first = _mm256_setr_epi32(0x80008000, 0x80048004, 0x80088008, 0x800c800c,
                                          0x80008000, 0x80048004, 0x80088008, 0x800c800c);
  return _mm256_shuffle_epi8(bytes, _mm256_add_epi32(first, _mm256_set1_epi32(0x00010001 * i)));
}

// The same, sign-extended: put into the upper byte, and shifted down arithmetically.
static inline __m256i TwiceSignedByte(__m256i bytes, int i) {
  const __m256i first = _mm256_setr_epi32(0x00800080, 0x04800480, 0x08800880, 0x0c800c80,
                                          0x00800080, 0x04800480, 0x08800880, 0x0c800c80);
  return _mm256_srai_epi16(
      _mm256_shuffle_epi8(bytes, _mm256_add_epi32(first, _mm256_set1_epi32(0x01000100 * i))), 8);
}

struct Q4_K {
  static constexpr QuantPanel kPanel = kQ4_KPanel;

  // A pair is at most 2 * 15 * 127 = 3810, the eight of a sub-block 30,480: all fit an int16.
  //
  // GGUF packs eight scales and eight minima of six bits into twelve bytes, bytes i of a, b and c:
  //   a_i   scale i, and the two upper bits of scale 4 + i above it
  //   b_i   minimum i, and the two upper bits of minimum 4 + i
  //   c_i   the four lower bits of scale 4 + i, those of minimum 4 + i above them
  // Shifts are of 16 bits, as there are none of 8; what comes over from the byte beside is masked.
  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int h,
                              const RowBlocks<kRows>& x, __m256 (&y)[kRows][2]) {
    const __m256i six = _mm256_set1_epi8(63);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i upper = _mm256_set1_epi8(48);
    const __m256i a = LoadLine(lines, h);
    const __m256i b = LoadLine(lines + kLineBytes, h);
    const __m256i c = LoadLine(lines + 2 * kLineBytes, h);
    const __m256i scales[2] = {_mm256_and_si256(a, six),
                               _mm256_or_si256(_mm256_and_si256(c, low),
                                               _mm256_and_si256(_mm256_srli_epi16(a, 2), upper))};
    const __m256i mins[2] = {_mm256_and_si256(b, six),
                             _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(c, 4), low),
                                             _mm256_and_si256(_mm256_srli_epi16(b, 2), upper))};
    __m256i dots[kRows];
    __m256i min_dots[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = min_dots[r] = _mm256_setzero_si256();
    const std::byte* nibbles = lines + kQ4_KScaleLines * kLineBytes;
    for (int j = 0; j < 8; ++j) {
      const __m128i shift = _mm_cvtsi32_si128(4 * (j % 2));
      __m256i w[8];
      for (int t = 0; t < 8; ++t) {
        w[t] =
            _mm256_and_si256(_mm256_srl_epi16(LoadLine(nibbles + t * kLineBytes, h), shift), low);
      }
      if (j % 2 == 1) nibbles += 8 * kLineBytes;
      const __m256i scale = TwiceByte(scales[j / 4], j % 4);
      const __m256i min = TwiceByte(mins[j / 4], j % 4);
      for (int r = 0; r < kRows; ++r) {
        const int8_t* const quants = x.quants[r] + 32 * j;
        __m256i pairs = _mm256_maddubs_epi16(w[0], BroadcastDword(quants));
        for (int t = 1; t < 8; ++t) {
          pairs =
              _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[t], BroadcastDword(quants + 4 * t)));
        }
        dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs, scale));
        // Subtracted: it is -k that is scaled.
        min_dots[r] = _mm256_sub_epi32(min_dots[r],
                                       _mm256_madd_epi16(min, BroadcastDword(x.sums[r] + 2 * j)));
      }
    }
    const __m256 d = LoadHalves(halves, h);
    const __m256 dmin = LoadHalves(halves + kHalvesBytes, h);
    for (int r = 0; r < kRows; ++r) {
      const __m256 row_scale = _mm256_set1_ps(x.scales[r]);
      y[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(d, row_scale), y[r][h]);
      y[r][h] =
          _mm256_fmadd_ps(_mm256_cvtepi32_ps(min_dots[r]), _mm256_mul_ps(dmin, row_scale), y[r][h]);
    }
  }
};

struct Q6_K {
  static constexpr QuantPanel kPanel = kQ6_KPanel;

  // Quants are 0..63 here. A pair is at most 2 * 63 * 127 = 16,002, two of them 32,004; the four of
  // a sub-block are widened in two steps. 32 * sum of scale * sum(x) is taken off at the end.
  template <int kRows>
  static inline void AddBlock(const std::byte* lines, const std::byte* halves, int h,
                              const RowBlocks<kRows>& x, __m256 (&y)[kRows][2]) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i upper = _mm256_set1_epi8(48);
    const __m256i even = _mm256_set1_epi32(0x0000ffff);
    __m256i dots[kRows];
    __m256i offsets[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = offsets[r] = _mm256_setzero_si256();
    for (int j = 0; j < 8; ++j) {  // elements 32j..32j+31, two sub-blocks
      const int quarter = j % 4;
      const std::byte* const nibbles = lines + (16 * (j / 4) + 8 * (quarter % 2)) * kLineBytes;
      const std::byte* const bits = lines + (kQ6_KUpperLine + 8 * (j / 4)) * kLineBytes;
      const __m128i nibble_shift = _mm_cvtsi32_si128(4 * (quarter / 2));
      const __m128i bit_shift = _mm_cvtsi32_si128(2 * quarter);
      __m256i w[8];
      for (int t = 0; t < 8; ++t) {
        const __m256i nibble =
            _mm256_srl_epi16(LoadLine(nibbles + t * kLineBytes, h), nibble_shift);
        // Bit pair `quarter` of each byte, to bits 4 and 5. It is masked where it lies, then goes
        // up by 4 - 2 * quarter; where that is negative, down.
        const __m256i pair = _mm256_srl_epi16(
            _mm256_slli_epi16(
                _mm256_and_si256(LoadLine(bits + t * kLineBytes, h),
                                 _mm256_sll_epi16(_mm256_srli_epi16(upper, 4), bit_shift)),
                4 * (quarter < 2)),
            _mm_cvtsi32_si128(quarter < 2 ? 2 * quarter : 2 * quarter - 4));
        w[t] = _mm256_or_si256(_mm256_and_si256(nibble, low), pair);
      }
      const __m256i four = LoadLine(lines + (kQ6_KScaleLine + j / 2) * kLineBytes, h);
      const __m256i scales[2] = {TwiceSignedByte(four, 2 * (j % 2)),
                                 TwiceSignedByte(four, 2 * (j % 2) + 1)};
      // Both sub-blocks' scales beside each other, as their sums of activations are in memory.
      const __m256i scale_pair = _mm256_blendv_epi8(scales[1], scales[0], even);
      for (int r = 0; r < kRows; ++r) {
        const int8_t* const quants = x.quants[r] + 32 * j;
        for (int t = 0; t < 8; t += 2) {
          const __m256i pairs =
              _mm256_add_epi16(_mm256_maddubs_epi16(w[t], BroadcastDword(quants + 4 * t)),
                               _mm256_maddubs_epi16(w[t + 1], BroadcastDword(quants + 4 * t + 4)));
          dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs, scales[t / 4]));
        }
        offsets[r] = _mm256_add_epi32(
            offsets[r], _mm256_madd_epi16(scale_pair, BroadcastDword(x.sums[r] + 2 * j)));
      }
    }
    const __m256 d = LoadHalves(halves, h);
    for (int r = 0; r < kRows; ++r) {
      const __m256i dot = _mm256_sub_epi32(dots[r], _mm256_slli_epi32(offsets[r], 5));
      y[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                                _mm256_mul_ps(d, _mm256_set1_ps(x.scales[r])), y[r][h]);
    }
  }
};

template <typename Type>
struct SuperBlockKernel {
  static constexpr uint32_t kRowsMax = 4;
  static constexpr uint32_t kPairRowsMax = 0;
  static constexpr QuantPanel kPanel = Type::kPanel;
  static constexpr size_t kBlockBytes = kPanel.lines * kLineBytes;

  template <int kRows, int kPanels>
  static void Run(const ProductTile& tile) {
    const uint32_t block_count = tile.x.inputs / kPanel.block;
    const std::byte* halves = tile.panels + HalvesOffset(kPanel, tile.x.inputs);
    __m256 y[kRows][2];
    for (int r = 0; r < kRows; ++r) y[r][0] = y[r][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < block_count; ++b) {
      const std::byte* const lines = tile.panels + b * kBlockBytes;
      FetchLines<kPanel.lines>(b + 1 < block_count ? lines + kBlockBytes : tile.next_panels);
      RowBlocks<kRows> x;
      x.scales = tile.x.scales + b * tile.x.scale_stride;
      for (int r = 0; r < kRows; ++r) {
        x.quants[r] = tile.x.quants + r * tile.x.quant_stride + size_t{b} * 256;
        x.sums[r] = tile.x.sums + r * tile.x.sum_stride + size_t{b} * 16;
      }
      Type::AddBlock(lines, halves, 0, x, y);
      Type::AddBlock(lines, halves, 1, x, y);
      halves += kPanel.halves * kHalvesBytes;
    }
    StoreResults(y, tile);
  }
};

}  // namespace

namespace avx2 {

void MultiplyQ4_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Q4_K>>(PanelSize(kQ4_KPanel, x.inputs), panels, panel_count,
                                        output_count, x, out, out_stride);
}

void MultiplyQ6_K(const std::byte* panels, uint32_t panel_count, uint32_t output_count,
                  const ActivationRows& x, float* out, size_t out_stride) {
  MultiplyTiles<SuperBlockKernel<Q6_K>>(PanelSize(kQ6_KPanel, x.inputs), panels, panel_count,
                                        output_count, x, out, out_stride);
}

}  // namespace avx2
}  // namespace outrider
