// Float arithmetic of kernels, alike where a GPU runs them and where this machine does: that of
// kernels/NUMERICS.md, to the bit.
//
// On a GPU this needs nvcc's -fmad=false -ftz=false -prec-div=true -prec-sqrt=true (the last three
// are its defaults); on the host what the whole tree is compiled with. Which NaN a NaN is, is
// nobody's business.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define OUTRIDER_HD __host__ __device__ __forceinline__
#else
#include "common/formats/tensors/half.h"
#define OUTRIDER_HD inline
#endif

// Before a loop whose values shall stay in registers: these have no index at run time.
#ifdef __CUDA_ARCH__
#define OUTRIDER_UNROLL _Pragma("unroll")
#else
#define OUTRIDER_UNROLL
#endif

namespace outrider::gpu {

template <typename T>
struct Pair {
  T first;
  T second;
};

OUTRIDER_HD uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

OUTRIDER_HD float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Of two dwords, the lower halves and the upper ones, those of the first lying lower.
OUTRIDER_HD uint32_t LowerHalves(uint32_t first, uint32_t second) {
#ifdef __CUDA_ARCH__
  return __byte_perm(first, second, 0x5410);
#else
  return (first & 0xffffu) | second << 16;
#endif
}

OUTRIDER_HD uint32_t UpperHalves(uint32_t first, uint32_t second) {
#ifdef __CUDA_ARCH__
  return __byte_perm(first, second, 0x7632);
#else
  return first >> 16 | (second & 0xffff0000u);
#endif
}

// Two floats as bfloat16s, to nearest, ties to even; the first lies lower.
OUTRIDER_HD uint32_t NarrowToBfloat16s(float first, float second) {
#ifdef __CUDA_ARCH__
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  const auto narrow = [](float value) {
    const uint32_t bits = BitsOf(value);
    if (value != value) return bits | 0x00400000u;  // a NaN, whatever is cut off
    return bits + 0x7fffu + (bits >> 16 & 1);
  };
  return UpperHalves(narrow(first), narrow(second));
#endif
}

OUTRIDER_HD float Infinity() {
  return FloatOf(0x7f800000u);
}

OUTRIDER_HD float Fma(float a, float b, float c) {
  return fmaf(a, b, c);
}

// Bits of halves and of bfloat16s, widened exactly.
OUTRIDER_HD float WidenHalf(uint16_t half) {
#ifdef __CUDACC__
  __half_raw raw;
  raw.x = half;
  return __half2float(__half(raw));
#else
  return HalfToFloat(half);
#endif
}

OUTRIDER_HD float WidenBfloat16(uint16_t bfloat16) {
  return FloatOf(uint32_t{bfloat16} << 16);
}

// To nearest, ties to even.
OUTRIDER_HD uint16_t NarrowToHalf(float value) {
#ifdef __CUDACC__
  return static_cast<__half_raw>(__float2half_rn(value)).x;
#else
  return FloatToHalf(value);
#endif
}

// NUMERICS.md, section 5.
inline constexpr float kExpMax = 0x1.62e42ep+6f;
inline constexpr float kExpMin = -0x1.5d589ep+6f;

OUTRIDER_HD float Exp(float x) {
  if (x != x) return x;
  if (x > kExpMax) return Infinity();
  if (x < kExpMin) return 0.0f;
  const float n = Fma(x, 0x1.715476p+0f, 0x1.8p+23f) - 0x1.8p+23f;
  float r = Fma(n, -0x1.62e43p-1f, x);
  r = Fma(n, 0x1.05c61p-29f, r);
  float p = 0x1.6a241ap-10f;
  p = Fma(p, r, 0x1.1239f2p-7f);
  p = Fma(p, r, 0x1.5558f2p-5f);
  p = Fma(p, r, 0x1.555492p-3f);
  p = Fma(p, r, 0x1.fffffcp-2f);
  p = Fma(p, r, 1.0f);
  p = Fma(p, r, 1.0f);
  // times 2^n, which within the limits above is a matter of the exponent field alone
  return FloatOf(BitsOf(p) + (static_cast<uint32_t>(static_cast<int32_t>(n)) << 23));
}

OUTRIDER_HD float DividedByOnePlusExp(float x, float z) {
  if (z > kExpMax) return -0.0f;
  return x / (1.0f + Exp(z));
}

OUTRIDER_HD float Silu(float x) {
  return DividedByOnePlusExp(x, -x);
}

OUTRIDER_HD float GeluTanh(float x) {
  return DividedByOnePlusExp(x, x * Fma(x * x, -0x1.2444f2p-4f, -0x1.988454p+0f));
}

}  // namespace outrider::gpu
