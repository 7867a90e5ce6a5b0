// Sixteen float lanes in four NEON registers, in order. See lanes_avx512.h, which says what each
// word means. Any Armv8 has all of this.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace outrider {
namespace {

class NeonLanes {
 public:
  // Sixteen of the 32 registers.
  static constexpr int kTile = 4;
  static constexpr int kHeads = 4;

  struct Ints {
    uint32x4_t x[4];
  };
  using Mask = Ints;

  NeonLanes() = default;  // the lanes hold anything
  static NeonLanes Zero() { return Of(0.0f); }
  static NeonLanes Of(float x) {
    return Each([&](int) { return vdupq_n_f32(x); });
  }

  static NeonLanes Load(const float* from) {
    return Each([&](int i) { return vld1q_f32(from + 4 * i); });
  }
  static NeonLanes LoadFirst(uint32_t count, const float* from) {
    float lanes[16] = {};
    __builtin_memcpy(lanes, from, count * sizeof(float));
    return Load(lanes);
  }
  static NeonLanes LoadHalves(const uint16_t* from) {
    return Each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * i))); });
  }
  static NeonLanes LoadFirstHalves(uint32_t count, const uint16_t* from) {
    uint16_t lanes[16] = {};
    __builtin_memcpy(lanes, from, count * sizeof(uint16_t));
    return LoadHalves(lanes);
  }
  static NeonLanes LoadUpperHalves(const uint16_t* from) {
    return Each(
        [&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from + 4 * i), 16)); });
  }
  void Store(float* to) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, x_[i]);
  }
  void StoreFirst(uint32_t count, float* to) const {
    float lanes[16];
    Store(lanes);
    __builtin_memcpy(to, lanes, count * sizeof(float));
  }
  void StoreHalves(uint16_t* to) const {
    for (int i = 0; i < 4; ++i) vst1_u16(to + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x_[i])));
  }
  void StoreFirstHalves(uint32_t count, uint16_t* to) const {
    uint16_t lanes[16];
    StoreHalves(lanes);
    __builtin_memcpy(to, lanes, count * sizeof(uint16_t));
  }

  friend NeonLanes operator+(NeonLanes a, NeonLanes b) {
    return Each([&](int i) { return vaddq_f32(a.x_[i], b.x_[i]); });
  }
  friend NeonLanes operator-(NeonLanes a, NeonLanes b) {
    return Each([&](int i) { return vsubq_f32(a.x_[i], b.x_[i]); });
  }
  friend NeonLanes operator*(NeonLanes a, NeonLanes b) {
    return Each([&](int i) { return vmulq_f32(a.x_[i], b.x_[i]); });
  }
  friend NeonLanes operator/(NeonLanes a, NeonLanes b) {
    return Each([&](int i) { return vdivq_f32(a.x_[i], b.x_[i]); });
  }
  friend NeonLanes Fma(NeonLanes a, NeonLanes b, NeonLanes c) {
    return Each([&](int i) { return vfmaq_f32(c.x_[i], a.x_[i], b.x_[i]); });
  }
  friend NeonLanes Max(NeonLanes a, NeonLanes b) {
    return Each([&](int i) { return vmaxq_f32(a.x_[i], b.x_[i]); });
  }

  friend Mask operator<=(NeonLanes a, NeonLanes b) {
    return EachInt([&](int i) { return vcleq_f32(a.x_[i], b.x_[i]); });
  }
  friend Mask operator<(NeonLanes a, NeonLanes b) {
    return EachInt([&](int i) { return vcltq_f32(a.x_[i], b.x_[i]); });
  }
  static NeonLanes Where(Mask mask, NeonLanes yes, NeonLanes no) {
    return Each([&](int i) { return vbslq_f32(mask.x[i], yes.x_[i], no.x_[i]); });
  }

  NeonLanes TimesTwoToThe(NeonLanes n) const {
    return Each([&](int i) {
      return vreinterpretq_f32_u32(
          vaddq_u32(vreinterpretq_u32_f32(x_[i]), vshlq_n_u32(vreinterpretq_u32_f32(n.x_[i]), 23)));
    });
  }

  Ints MagnitudeBits() const {
    return EachInt([&](int i) { return vreinterpretq_u32_f32(vabsq_f32(x_[i])); });
  }
  static Ints LargerBits(Ints a, Ints b) {
    return EachInt([&](int i) { return vmaxq_u32(a.x[i], b.x[i]); });
  }
  static uint32_t LargestBits(Ints x) {
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(x.x[0], x.x[1]), vmaxq_u32(x.x[2], x.x[3])));
  }

  int16_t StoreRounded(int8_t* to) const {
    const auto words = [&](int i) {
      return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(x_[i])), vqmovn_s32(vcvtnq_s32_f32(x_[i + 1])));
    };
    const int8x16_t bytes = vcombine_s8(vqmovn_s16(words(0)), vqmovn_s16(words(2)));
    vst1q_s8(to, bytes);
    return vaddlvq_s8(bytes);
  }

  static void Unzip(NeonLanes a, NeonLanes b, NeonLanes& x, NeonLanes& y) {
    x = NeonLanes(vuzp1q_f32(a.x_[0], a.x_[1]), vuzp1q_f32(a.x_[2], a.x_[3]),
                  vuzp1q_f32(b.x_[0], b.x_[1]), vuzp1q_f32(b.x_[2], b.x_[3]));
    y = NeonLanes(vuzp2q_f32(a.x_[0], a.x_[1]), vuzp2q_f32(a.x_[2], a.x_[3]),
                  vuzp2q_f32(b.x_[0], b.x_[1]), vuzp2q_f32(b.x_[2], b.x_[3]));
  }
  static void Zip(NeonLanes x, NeonLanes y, NeonLanes& a, NeonLanes& b) {
    a = NeonLanes(vzip1q_f32(x.x_[0], y.x_[0]), vzip2q_f32(x.x_[0], y.x_[0]),
                  vzip1q_f32(x.x_[1], y.x_[1]), vzip2q_f32(x.x_[1], y.x_[1]));
    b = NeonLanes(vzip1q_f32(x.x_[2], y.x_[2]), vzip2q_f32(x.x_[2], y.x_[2]),
                  vzip1q_f32(x.x_[3], y.x_[3]), vzip2q_f32(x.x_[3], y.x_[3]));
  }

  template <int kDistance>
  NeonLanes Swapped() const {
    return Each([&](int i) {
      if constexpr (kDistance >= 4) return x_[i ^ (kDistance / 4)];
      if constexpr (kDistance == 2) return vextq_f32(x_[i], x_[i], 2);
      if constexpr (kDistance == 1) return vrev64q_f32(x_[i]);
    });
  }

  float Sum() const {
    const float32x4_t fours = ToFour();
    const float32x4_t twos = vaddq_f32(fours, vextq_f32(fours, fours, 2));
    return vgetq_lane_f32(vaddq_f32(twos, vdupq_laneq_f32(twos, 1)), 0);
  }

  [[gnu::always_inline]] static void StoreSums(const NeonLanes (&x)[kTile], float* to) {
    const auto twos = [&](int i) {  // two lanes of i beside two of i + 1
      const float64x2_t a = vreinterpretq_f64_f32(x[i].ToFour());
      const float64x2_t b = vreinterpretq_f64_f32(x[i + 1].ToFour());
      return vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(a, b)),
                       vreinterpretq_f32_f64(vtrn2q_f64(a, b)));
    };
    const float32x4_t a = twos(0), b = twos(2);
    vst1q_f32(to, vaddq_f32(vuzp1q_f32(a, b), vuzp2q_f32(a, b)));
  }

 private:
  NeonLanes(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) : x_{a, b, c, d} {}

  template <class Op>
  static NeonLanes Each(Op op) {
    return NeonLanes(op(0), op(1), op(2), op(3));
  }
  template <class Op>
  static Ints EachInt(Op op) {
    return {{op(0), op(1), op(2), op(3)}};
  }

  // Lane l takes l + 8, then l + 4.
  float32x4_t ToFour() const { return vaddq_f32(vaddq_f32(x_[0], x_[2]), vaddq_f32(x_[1], x_[3])); }

  float32x4_t x_[4];
};

}  // namespace
}  // namespace outrider
