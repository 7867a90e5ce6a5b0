// The bytes of the types in super-blocks of 256 in AVX-512 registers, for the VNNI and the AMX
// kernels. A type says how they are unpacked:
//
//   struct Lines {
//     static constexpr QuantPanel kPanel;
//     static constexpr int kWidth;    // elements of a sub-block, 16 or 32
//     static constexpr int kOffset;   // bytes are this much above what they stand for
//     static constexpr bool kMinima;  // sub-blocks have minima
//
//     // Byte i of lane n of scales.of[f] is the scale of output n's sub-block 4f + i; minima
//     // likewise.
//     static void LoadScales(const std::byte* lines, const std::byte* halves,
//                            Fours<kWidth>& scales, Fours<kWidth>& minima);
//     // Elements 32j..32j+31 as unsigned bytes: vector t has k = 32j + 4t..4t+3.
//     template <int j>
//     static void Load(const std::byte* lines, __m512i (&w)[8]);
//   };
//
// Static, as in product_loop.h. Shifts are of 16 bits, as there are none of 8; what comes over from
// the next byte is masked off.
#pragma once

#include "common/formats/tensors/nibble_values.h"
#include "common/kernels/products/avx512_lanes.h"

namespace outrider {

// A byte for each sub-block, four in a dword.
template <int kWidth>
struct Fours {
  __m512i of[256 / kWidth / 4];
};

// Byte i of every lane's dword, zero-extended to int16 and twice. (A shuffle index with its top bit
// set, 0x80, gives zero; the others count through 16 bytes, so each quarter of the register anew.)
static inline __m512i TwiceByte(__m512i bytes, int i) {
  return _mm512_shuffle_epi8(
      bytes, _mm512_add_epi32(_mm512_set4_epi32(0x800c800c, 0x80088008, 0x80048004, 0x80008000),
                              _mm512_set1_epi32(0x00010001 * i)));
}

// Bytes i and i + 1 of every lane's dword, zero-extended to int16.
static inline __m512i TwoBytes(__m512i bytes, int i) {
  return _mm512_shuffle_epi8(
      bytes, _mm512_add_epi32(_mm512_set4_epi32(0x800d800c, 0x80098008, 0x80058004, 0x80018000),
                              _mm512_set1_epi32(0x00010001 * i)));
}

// The same, sign-extended: put into the upper bytes, and shifted down arithmetically.
static inline __m512i TwoSignedBytes(__m512i bytes, int i) {
  return _mm512_srai_epi16(
      _mm512_shuffle_epi8(
          bytes, _mm512_add_epi32(_mm512_set4_epi32(0x0d800c80, 0x09800880, 0x05800480, 0x01800080),
                                  _mm512_set1_epi32(0x01000100 * i))),
      8);
}

// Signed byte i of every lane's dword, as int32: up to the top, and down again.
template <int i>
static inline __m512i SignedByteOf(__m512i bytes) {
  return _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24 - 8 * i), 24);
}

// Fetches the j-th eighth of a super-block's lines: all at once would fill every line fill buffer
// and make the loads behind them wait.
template <const QuantPanel& kPanel, int j>
static inline void FetchEighth(const std::byte* lines) {
  constexpr int kEighth = (kPanel.lines + 7) / 8;
  FetchLines<kEighth>(lines + j * kEighth * kLineBytes);
}

template <const QuantPanel& kPanel, int j>
static inline void FetchEighthFar(const std::byte* lines) {
  constexpr int kEighth = (kPanel.lines + 7) / 8;
  FetchLinesFar<kEighth>(lines + j * kEighth * kLineBytes);
}

// Nibbles of sub-block j of Q4_K and Q5_K, below other bits.
template <int j>
static inline __m512i LoadQ4_KNibble(const std::byte* nibbles, int t) {
  return MoveBits<4 * (j % 2), 0>(LoadLine(nibbles + (8 * (j / 2) + t) * kLineBytes));
}

// Bit pairs of elements 32j..32j+31 at bits kTo and kTo + 1, among others.
template <int j, int kTo>
static inline __m512i LoadPair(const std::byte* pairs, int t) {
  return MoveBits<2 * (j % 4), kTo>(LoadLine(pairs + (8 * (j / 4) + t) * kLineBytes));
}

struct Q4_KLines {
  static constexpr QuantPanel kPanel = kQ4_KPanel;
  static constexpr int kWidth = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kMinima = true;

  // GGUF packs eight scales and eight minima of six bits into twelve bytes, bytes i of a, b and c:
  //   a_i   scale i, and the two upper bits of scale 4 + i above it
  //   b_i   minimum i, and the two upper bits of minimum 4 + i
  //   c_i   the four lower bits of scale 4 + i, those of minimum 4 + i above them
  static inline void LoadScales(const std::byte* lines, const std::byte*, Fours<32>& scales,
                                Fours<32>& minima) {
    const __m512i six = _mm512_set1_epi8(63);
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i a = LoadLine(lines);
    const __m512i b = LoadLine(lines + kLineBytes);
    const __m512i c = LoadLine(lines + 2 * kLineBytes);
    scales.of[0] = _mm512_and_si512(a, six);
    scales.of[1] = Select(low, c, _mm512_and_si512(_mm512_srli_epi16(a, 2), six));
    minima.of[0] = _mm512_and_si512(b, six);
    minima.of[1] =
        Select(low, _mm512_srli_epi16(c, 4), _mm512_and_si512(_mm512_srli_epi16(b, 2), six));
  }

  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int t = 0; t < 8; ++t) {
      w[t] = _mm512_and_si512(LoadQ4_KNibble<j>(lines + kQ4_KNibbleLine * kLineBytes, t), low);
    }
  }
};

struct Q5_KLines : Q4_KLines {
  static constexpr QuantPanel kPanel = kQ5_KPanel;

  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i upper = _mm512_set1_epi8(16);
    for (int t = 0; t < 8; ++t) {
      const __m512i fifth = MoveBits<j, 4>(LoadLine(lines + (kQ5_KFifthLine + t) * kLineBytes));
      w[t] = Select(low, LoadQ4_KNibble<j>(lines + kQ5_KNibbleLine * kLineBytes, t),
                    _mm512_and_si512(fifth, upper));
    }
  }
};

struct Q6_KLines {
  static constexpr QuantPanel kPanel = kQ6_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kOffset = 32;
  static constexpr bool kMinima = false;

  static inline void LoadScales(const std::byte* lines, const std::byte*, Fours<16>& scales,
                                Fours<16>&) {
    for (int f = 0; f < 4; ++f) scales.of[f] = LoadLine(lines + (kQ6_KScaleLine + f) * kLineBytes);
  }

  // Of each half of the super-block, quarters 0 and 1 have low nibbles, 2 and 3 the high ones of
  // the same bytes.
  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    constexpr int kHalf = j / 4;
    constexpr int kQuarter = j % 4;
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i upper = _mm512_set1_epi8(48);
    const std::byte* const nibbles = lines + (16 * kHalf + 8 * (kQuarter % 2)) * kLineBytes;
    for (int t = 0; t < 8; ++t) {
      const __m512i nibble = MoveBits<4 * (kQuarter / 2), 0>(LoadLine(nibbles + t * kLineBytes));
      const __m512i pair = LoadPair<j, 4>(lines + kQ6_KUpperLine * kLineBytes, t);
      w[t] = Select(low, nibble, _mm512_and_si512(pair, upper));
    }
  }
};

struct Q2_KLines {
  static constexpr QuantPanel kPanel = kQ2_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kOffset = 0;
  static constexpr bool kMinima = true;

  static inline void LoadScales(const std::byte* lines, const std::byte*, Fours<16>& scales,
                                Fours<16>& minima) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int f = 0; f < 4; ++f) {
      const __m512i line = LoadLine(lines + f * kLineBytes);
      scales.of[f] = _mm512_and_si512(line, low);
      minima.of[f] = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
    }
  }

  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i three = _mm512_set1_epi8(3);
    for (int t = 0; t < 8; ++t) {
      w[t] = _mm512_and_si512(LoadPair<j, 0>(lines + kQ2_KPairLine * kLineBytes, t), three);
    }
  }
};

struct Q3_KLines {
  static constexpr QuantPanel kPanel = kQ3_KPanel;
  static constexpr int kWidth = 16;
  static constexpr int kOffset = 4;
  static constexpr bool kMinima = false;

  // Twelve bytes hold sixteen scales of six bits: bytes i of the first eight the lower halves of
  // scales i and, above, 8 + i; bit pairs p of bytes i of the last four the upper ones of 4p + i.
  static inline void LoadScales(const std::byte* lines, const std::byte*, Fours<16>& scales,
                                Fours<16>&) {
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i upper = _mm512_set1_epi8(48);
    const __m512i middle = _mm512_set1_epi8(32);
    const std::byte* const packed = lines + kQ3_KScaleLine * kLineBytes;
    const __m512i a = LoadLine(packed);
    const __m512i b = LoadLine(packed + kLineBytes);
    const __m512i c = LoadLine(packed + 2 * kLineBytes);
    const __m512i lower[4] = {a, b, MoveBits<4, 0>(a), MoveBits<4, 0>(b)};
    const __m512i pairs[4] = {MoveBits<0, 4>(c), MoveBits<2, 4>(c), c, MoveBits<6, 4>(c)};
    for (int f = 0; f < 4; ++f) {
      const __m512i scale = Select(low, lower[f], _mm512_and_si512(pairs[f], upper));
      scales.of[f] = _mm512_sub_epi8(scale, middle);
    }
  }

  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const __m512i three = _mm512_set1_epi8(3);
    const __m512i four = _mm512_set1_epi8(4);
    for (int t = 0; t < 8; ++t) {
      const __m512i third = MoveBits<j, 2>(LoadLine(lines + t * kLineBytes));
      w[t] = Select(three, LoadPair<j, 0>(lines + kQ3_KPairLine * kLineBytes, t),
                    _mm512_and_si512(third, four));
    }
  }
};

struct IQ4_XSLines {
  static constexpr QuantPanel kPanel = kIQ4_XSPanel;
  static constexpr int kWidth = 32;
  static constexpr int kOffset = 128;
  static constexpr bool kMinima = false;

  // Lower halves of scales 2i and 2i + 1 are the nibbles of byte i; their upper bit pairs are
  // nibble i of 16 bits, which are dealt to the bytes of a dword.
  static inline void LoadScales(const std::byte* lines, const std::byte* halves, Fours<32>& scales,
                                Fours<32>&) {
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i upper = _mm512_set1_epi8(48);
    const __m512i middle = _mm512_set1_epi8(32);
    const __m512i line = LoadLine(lines);
    __m512i pairs = _mm512_cvtepu16_epi32(
        _mm256_load_si256(reinterpret_cast<const __m256i*>(halves + kHalvesBytes)));
    pairs = _mm512_or_si512(_mm512_and_si512(pairs, _mm512_set1_epi32(0xff)),
                            _mm512_slli_epi32(_mm512_srli_epi32(pairs, 8), 16));
    pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 4));
    const __m512i even_upper = _mm512_and_si512(MoveBits<0, 4>(pairs), upper);
    const __m512i odd_upper = _mm512_and_si512(MoveBits<2, 4>(pairs), upper);
    const __m512i even = _mm512_sub_epi8(Select(low, line, even_upper), middle);
    const __m512i odd = _mm512_sub_epi8(Select(low, MoveBits<4, 0>(line), odd_upper), middle);
    // Each output's eight beside each other, of two outputs and of the next two; then apart again.
    const __m512 first = _mm512_castsi512_ps(_mm512_unpacklo_epi8(even, odd));
    const __m512 next = _mm512_castsi512_ps(_mm512_unpackhi_epi8(even, odd));
    scales.of[0] = _mm512_castps_si512(_mm512_shuffle_ps(first, next, 0x88));
    scales.of[1] = _mm512_castps_si512(_mm512_shuffle_ps(first, next, 0xdd));
  }

  template <int j>
  static inline void Load(const std::byte* lines, __m512i (&w)[8]) {
    const std::byte* const nibbles = lines + (kIQ4_XSNibbleLine + 4 * j) * kLineBytes;
    for (int t = 0; t < 8; ++t) {
      const __m512i line = LoadLine(nibbles + t % 4 * kLineBytes);
      w[t] = Values<kIq4Values, kOffset>(t < 4 ? line : MoveBits<4, 0>(line));
    }
  }
};

}  // namespace outrider
