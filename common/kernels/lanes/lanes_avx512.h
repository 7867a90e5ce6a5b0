// Sixteen float lanes in one AVX-512 register: the vocabulary that the row kernels and the products
// of float weights are written in. The other lanes_*.h say the same words for their instruction
// sets.
//
// Every operation is the IEEE one, lane by lane, and sums are the tree of NUMERICS.md, section 2.
// Everything stands in an anonymous namespace: a copy of an inline function compiled with these
// flags must never be the one the linker keeps for the whole program.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace outrider {
namespace {

class Avx512Lanes {
 public:
  // Of the 32 registers, so many hold the accumulators of attention; and so many heads share them.
  static constexpr int kTile = 16;
  static constexpr int kHeads = 8;

  using Ints = __m512i;
  using Mask = __mmask16;

  Avx512Lanes() = default;  // the lanes hold anything
  static Avx512Lanes Zero() { return _mm512_setzero_ps(); }
  static Avx512Lanes Of(float x) { return _mm512_set1_ps(x); }

  // `First` stops after the first `count` (below 16) elements; lanes it does not load are +0.
  static Avx512Lanes Load(const float* from) { return _mm512_loadu_ps(from); }
  static Avx512Lanes LoadFirst(uint32_t count, const float* from) {
    return _mm512_maskz_loadu_ps(First(count), from);
  }
  static Avx512Lanes LoadHalves(const uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Avx512Lanes LoadFirstHalves(uint32_t count, const uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(First(count), from));
  }
  // bf16: a float's upper half, the lower one zero.
  static Avx512Lanes LoadUpperHalves(const uint16_t* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  void Store(float* to) const { _mm512_storeu_ps(to, x_); }
  void StoreFirst(uint32_t count, float* to) const { _mm512_mask_storeu_ps(to, First(count), x_); }
  void StoreHalves(uint16_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), Halves());
  }
  void StoreFirstHalves(uint32_t count, uint16_t* to) const {
    _mm256_mask_storeu_epi16(to, First(count), Halves());
  }

  friend Avx512Lanes operator+(Avx512Lanes a, Avx512Lanes b) { return _mm512_add_ps(a.x_, b.x_); }
  friend Avx512Lanes operator-(Avx512Lanes a, Avx512Lanes b) { return _mm512_sub_ps(a.x_, b.x_); }
  friend Avx512Lanes operator*(Avx512Lanes a, Avx512Lanes b) { return _mm512_mul_ps(a.x_, b.x_); }
  friend Avx512Lanes operator/(Avx512Lanes a, Avx512Lanes b) { return _mm512_div_ps(a.x_, b.x_); }
  // a * b + c, rounded once
  friend Avx512Lanes Fma(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) {
    return _mm512_fmadd_ps(a.x_, b.x_, c.x_);
  }
  // Of a NaN and a number, either; of two zeros, too.
  friend Avx512Lanes Max(Avx512Lanes a, Avx512Lanes b) { return _mm512_max_ps(a.x_, b.x_); }

  // Comparisons with a NaN are false.
  friend Mask operator<=(Avx512Lanes a, Avx512Lanes b) {
    return _mm512_cmp_ps_mask(a.x_, b.x_, _CMP_LE_OQ);
  }
  friend Mask operator<(Avx512Lanes a, Avx512Lanes b) {
    return _mm512_cmp_ps_mask(a.x_, b.x_, _CMP_LT_OQ);
  }
  static Avx512Lanes Where(Mask mask, Avx512Lanes yes, Avx512Lanes no) {
    return _mm512_mask_blend_ps(mask, no.x_, yes.x_);
  }

  // *this * 2^n, where the lowest nine bits of `n`'s representation are n and the result is normal.
  Avx512Lanes TimesTwoToThe(Avx512Lanes n) const {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x_),
                                                _mm512_slli_epi32(_mm512_castps_si512(n.x_), 23)));
  }

  // The bits without the sign: they order as the magnitudes do, with NaN above all.
  Ints MagnitudeBits() const {
    return _mm512_and_epi32(_mm512_castps_si512(x_), _mm512_set1_epi32(0x7fffffff));
  }
  static Ints LargerBits(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static uint32_t LargestBits(Ints x) {
    const __m256i y = _mm256_max_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i z = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0x4e));
    z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(z));
  }

  // Stores the lanes (in -127..127) rounded to the nearest integers, ties to even. Their sum.
  int16_t StoreRounded(int8_t* to) const {
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x_));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    // sad sums unsigned bytes: each is 128 too large.
    const __m128i halves =
        _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    const int sum = _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4);
    return static_cast<int16_t>(sum - 16 * 128);
  }

  // a and b hold x0 y0 x1 y1 ...: x and y hold sixteen of each.
  static void Unzip(Avx512Lanes a, Avx512Lanes b, Avx512Lanes& x, Avx512Lanes& y) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    x = _mm512_permutex2var_ps(a.x_, even, b.x_);
    y = _mm512_permutex2var_ps(a.x_, odd, b.x_);
  }
  static void Zip(Avx512Lanes x, Avx512Lanes y, Avx512Lanes& a, Avx512Lanes& b) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    a = _mm512_permutex2var_ps(x.x_, lower, y.x_);
    b = _mm512_permutex2var_ps(x.x_, upper, y.x_);
  }

  // Lane l takes lane l ^ kDistance.
  template <int kDistance>
  Avx512Lanes Swapped() const {
    if constexpr (kDistance == 8) return _mm512_shuffle_f32x4(x_, x_, 0x4e);
    if constexpr (kDistance == 4) return _mm512_shuffle_f32x4(x_, x_, 0xb1);
    if constexpr (kDistance == 2) return _mm512_permute_ps(x_, 0x4e);
    if constexpr (kDistance == 1) return _mm512_permute_ps(x_, 0xb1);
  }

  // Lane l takes l + 8, then l + 4, l + 2, l + 1.
  float Sum() const {
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x_), _mm512_extractf32x8_ps(x_, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    z = _mm_add_ps(z, _mm_movehdup_ps(z));
    return _mm_cvtss_f32(z);
  }

  // to[i] = x[i].Sum(), for a whole tile at the price of about five.
  //
  // Each step puts two vectors' lower halves (of 16, 8, 4, 2 lanes) beside one another in one
  // register and their upper halves in the other, so one addition serves both. Where the second
  // vector's halves change places (a + b is b + a), a blend makes the first of those registers, and
  // only one shuffle is left.
  [[gnu::always_inline]] static void StoreSums(const Avx512Lanes (&x)[kTile], float* to) {
    const __m512i swapped_quarters =
        _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    // eight lanes each of (i, i + 8)
    const auto eights = [&](int i) {
      const __m512 a = x[i].x_, b = x[i + 8].x_;
      return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
    };
    // four lanes each of (i, i + 4, i + 8, i + 12)
    const auto fours = [&](int i) {
      const __m512 a = eights(i), b = eights(i + 4);
      return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b),
                           _mm512_permutex2var_ps(a, swapped_quarters, b));
    };
    // two lanes each of (i, i + 2), and in the other quarters of those 4, 8 and 12 further
    const auto twos = [&](int i) {
      const __m512 a = fours(i), b = fours(i + 2);
      return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
    };
    const __m512 a = twos(0), b = twos(1);
    const __m512 ones = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    _mm512_storeu_ps(to, _mm512_permute_ps(ones, 0xd8));  // 0 2 1 3 in each quarter
  }

 private:
  Avx512Lanes(__m512 x) : x_(x) {}  // NOLINT(google-explicit-constructor)

  static Mask First(uint32_t count) { return static_cast<Mask>((1u << count) - 1); }

  __m256i Halves() const {
    return _mm512_cvtps_ph(x_, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  __m512 x_;
};

}  // namespace
}  // namespace outrider
