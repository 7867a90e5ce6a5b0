// Sixteen float lanes in two AVX2 registers, `low_` with lanes 0..7. See lanes_avx512.h, which says
// what each word means.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace outrider {
namespace {

class Avx2Lanes {
 public:
  // Eight of the 16 registers.
  static constexpr int kTile = 4;
  static constexpr int kHeads = 4;

  struct Ints {
    __m256i low, high;
  };
  struct Mask {
    __m256 low, high;
  };

  Avx2Lanes() = default;  // the lanes hold anything
  static Avx2Lanes Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Avx2Lanes Of(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }

  static Avx2Lanes Load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  static Avx2Lanes LoadFirst(uint32_t count, const float* from) {
    float lanes[16] = {};
    __builtin_memcpy(lanes, from, count * sizeof(float));
    return Load(lanes);
  }
  static Avx2Lanes LoadHalves(const uint16_t* from) {
    const __m128i* halves = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static Avx2Lanes LoadFirstHalves(uint32_t count, const uint16_t* from) {
    uint16_t lanes[16] = {};
    __builtin_memcpy(lanes, from, count * sizeof(uint16_t));
    return LoadHalves(lanes);
  }
  static Avx2Lanes LoadUpperHalves(const uint16_t* from) {
    const __m128i* halves = reinterpret_cast<const __m128i*>(from);
    const auto widened = [](__m128i eight) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
    };
    return {widened(_mm_loadu_si128(halves)), widened(_mm_loadu_si128(halves + 1))};
  }
  void Store(float* to) const {
    _mm256_storeu_ps(to, low_);
    _mm256_storeu_ps(to + 8, high_);
  }
  void StoreFirst(uint32_t count, float* to) const {
    float lanes[16];
    Store(lanes);
    __builtin_memcpy(to, lanes, count * sizeof(float));
  }
  void StoreHalves(uint16_t* to) const {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    __m128i* halves = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(halves, _mm256_cvtps_ph(low_, kNearest));
    _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(high_, kNearest));
  }
  void StoreFirstHalves(uint32_t count, uint16_t* to) const {
    uint16_t lanes[16];
    StoreHalves(lanes);
    __builtin_memcpy(to, lanes, count * sizeof(uint16_t));
  }

  friend Avx2Lanes operator+(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_add_ps(a.low_, b.low_), _mm256_add_ps(a.high_, b.high_)};
  }
  friend Avx2Lanes operator-(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_sub_ps(a.low_, b.low_), _mm256_sub_ps(a.high_, b.high_)};
  }
  friend Avx2Lanes operator*(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_mul_ps(a.low_, b.low_), _mm256_mul_ps(a.high_, b.high_)};
  }
  friend Avx2Lanes operator/(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_div_ps(a.low_, b.low_), _mm256_div_ps(a.high_, b.high_)};
  }
  friend Avx2Lanes Fma(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
    return {_mm256_fmadd_ps(a.low_, b.low_, c.low_), _mm256_fmadd_ps(a.high_, b.high_, c.high_)};
  }
  friend Avx2Lanes Max(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_max_ps(a.low_, b.low_), _mm256_max_ps(a.high_, b.high_)};
  }

  friend Mask operator<=(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_cmp_ps(a.low_, b.low_, _CMP_LE_OQ), _mm256_cmp_ps(a.high_, b.high_, _CMP_LE_OQ)};
  }
  friend Mask operator<(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_cmp_ps(a.low_, b.low_, _CMP_LT_OQ), _mm256_cmp_ps(a.high_, b.high_, _CMP_LT_OQ)};
  }
  static Avx2Lanes Where(Mask mask, Avx2Lanes yes, Avx2Lanes no) {
    return {_mm256_blendv_ps(no.low_, yes.low_, mask.low),
            _mm256_blendv_ps(no.high_, yes.high_, mask.high)};
  }

  Avx2Lanes TimesTwoToThe(Avx2Lanes n) const {
    const auto scaled = [](__m256 x, __m256 by) {
      return _mm256_castsi256_ps(
          _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(by), 23)));
    };
    return {scaled(low_, n.low_), scaled(high_, n.high_)};
  }

  Ints MagnitudeBits() const {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_and_si256(_mm256_castps_si256(low_), magnitude),
            _mm256_and_si256(_mm256_castps_si256(high_), magnitude)};
  }
  static Ints LargerBits(Ints a, Ints b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
  }
  static uint32_t LargestBits(Ints x) {
    const __m256i y = _mm256_max_epi32(x.low, x.high);
    __m128i z = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0x4e));
    z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(z));
  }

  int16_t StoreRounded(int8_t* to) const {
    // Packing works within 128 bits, so the middle quarters change places.
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(low_), _mm256_cvtps_epi32(high_)), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    const __m128i halves =
        _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    const int sum = _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4);
    return static_cast<int16_t>(sum - 16 * 128);
  }

  static void Unzip(Avx2Lanes a, Avx2Lanes b, Avx2Lanes& x, Avx2Lanes& y) {
    x = {Picked<0x88>(a.low_, a.high_), Picked<0x88>(b.low_, b.high_)};
    y = {Picked<0xdd>(a.low_, a.high_), Picked<0xdd>(b.low_, b.high_)};
  }
  static void Zip(Avx2Lanes x, Avx2Lanes y, Avx2Lanes& a, Avx2Lanes& b) {
    a = Interleaved(x.low_, y.low_);
    b = Interleaved(x.high_, y.high_);
  }

  template <int kDistance>
  Avx2Lanes Swapped() const {
    if constexpr (kDistance == 8) return {high_, low_};
    if constexpr (kDistance == 4) {
      return {_mm256_permute2f128_ps(low_, low_, 1), _mm256_permute2f128_ps(high_, high_, 1)};
    }
    if constexpr (kDistance == 2) {
      return {_mm256_permute_ps(low_, 0x4e), _mm256_permute_ps(high_, 0x4e)};
    }
    if constexpr (kDistance == 1) {
      return {_mm256_permute_ps(low_, 0xb1), _mm256_permute_ps(high_, 0xb1)};
    }
  }

  float Sum() const {
    const __m256 y = _mm256_add_ps(low_, high_);
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    z = _mm_add_ps(z, _mm_movehdup_ps(z));
    return _mm_cvtss_f32(z);
  }

  [[gnu::always_inline]] static void StoreSums(const Avx2Lanes (&x)[kTile], float* to) {
    const auto fours = [&](int i) {  // four lanes of i beside four of i + 1
      const __m256 a = _mm256_add_ps(x[i].low_, x[i].high_);
      const __m256 b = _mm256_add_ps(x[i + 1].low_, x[i + 1].high_);
      return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
    };
    const __m256 a = fours(0), b = fours(2);
    // two lanes each of 0 and 2 | 1 and 3
    const __m256 twos = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    const __m256 ones = _mm256_add_ps(twos, _mm256_movehdup_ps(twos));  // 0 . 2 . | 1 . 3 .
    const __m128 even = _mm256_castps256_ps128(ones), odd = _mm256_extractf128_ps(ones, 1);
    _mm_storeu_ps(
        to, _mm_unpacklo_ps(_mm_shuffle_ps(even, even, 0xd8), _mm_shuffle_ps(odd, odd, 0xd8)));
  }

 private:
  Avx2Lanes(__m256 low, __m256 high) : low_(low), high_(high) {}

  // Every second of the sixteen lanes of a, b.
  template <int kShuffle>
  static __m256 Picked(__m256 a, __m256 b) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, kShuffle)), 0xd8));
  }
  static Avx2Lanes Interleaved(__m256 x, __m256 y) {
    const __m256 even = _mm256_unpacklo_ps(x, y), odd = _mm256_unpackhi_ps(x, y);
    return {_mm256_permute2f128_ps(even, odd, 0x20), _mm256_permute2f128_ps(even, odd, 0x31)};
  }

  __m256 low_, high_;
};

}  // namespace
}  // namespace outrider
