// What the lanes of a warp hold of the matrices that its tensor cores multiply: sixteen outputs of
// weights by 32 inputs, times 32 inputs of eight rows of activations, in int8, added up in int32,
// exactly (mma.m16n8k32 in PTX). Lane l is of group l / 4, and l % 4 is its place there:
//
//   weights  dword 0: output group, inputs 4 * place ..+3    dword 2: the same, 16 inputs on
//            dword 1: output group + 8                       dword 3: likewise
//   rows     dword 0: row group, inputs 4 * place ..+3       dword 1: 16 inputs on
//   sums     0, 1: output group, rows 2 * place and + 1      2, 3: output group + 8
//
// And sixteen outputs by 16 inputs, times 16 inputs of eight rows, in bfloat16, added up in float32
// (mma.m16n8k16), two inputs in a dword, the first in its lower half:
//
//   weights  dword 0: output group, inputs 2 * place, + 1    dword 2: the same, 8 inputs on
//            dword 1: output group + 8                       dword 3: likewise
//   rows     dword 0: row group, inputs 2 * place, + 1       dword 1: 8 inputs on
//   sums     as above
//
// The weights' dwords above can come from shared memory where outputs lie side by side and inputs
// do not (ldmatrix with .trans): each lane says where eight halves begin, those of outputs 8 * half
// ..+7 of one input, and gets two inputs of one output in a dword:
//
//   says     lane l: half l / 8 % 2 of the input that is (l % 8)-th of l / 16
//   gets     dword d: output group + 8 * (d % 2), of the inputs (2 * place)-th and next of d / 2
//
// Products of bfloat16s are exact there; in which order they are added to the sum, and where that
// is rounded or cut off, NVIDIA does not say, nor what becomes of subnormal numbers. It is taken to
// be the same for every row of a tile, and to depend on nothing but the row, the output and the
// sum.
#pragma once

#include <cstdint>

#include "common/cuda/block/arithmetic.h"

namespace outrider::gpu {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kTileOutputs = 16;
inline constexpr uint32_t kTileRows = 8;
inline constexpr uint32_t kTileInputs = 32;
inline constexpr uint32_t kFloatTileInputs = 16;

// What one load or copy of a thread can be.
template <typename T>
struct alignas(16) Four {
  T at[4];
};

template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T at[2];
};

struct WeightFragment {
  uint32_t dwords[4];
};

struct RowFragment {
  uint32_t dwords[2];
};

struct SumFragment {
  int32_t sums[4];
};

struct FloatSumFragment {
  float sums[4];
};

// What a thread has of a tile in int8.
struct IntTile {
  const WeightFragment* weights;
  const RowFragment* rows;
  SumFragment* sums;
};

// And of one in bfloat16.
struct FloatTile {
  const WeightFragment* weights;
  const RowFragment* rows;
  FloatSumFragment* sums;
};

OUTRIDER_HD uint32_t LaneOf(uint32_t thread) {
  return thread % kWarpLanes;
}
OUTRIDER_HD uint32_t GroupOf(uint32_t thread) {
  return LaneOf(thread) / 4;
}
OUTRIDER_HD uint32_t PlaceOf(uint32_t thread) {
  return thread % 4;
}

// Which output and row of the tile a lane's sum is.
OUTRIDER_HD uint32_t OutputOfSum(uint32_t thread, uint32_t sum) {
  return GroupOf(thread) + 8 * (sum / 2);
}
OUTRIDER_HD uint32_t RowOfSum(uint32_t thread, uint32_t sum) {
  return 2 * PlaceOf(thread) + sum % 2;
}

}  // namespace outrider::gpu
