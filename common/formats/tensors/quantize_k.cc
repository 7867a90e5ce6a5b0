#include "common/formats/tensors/quantize_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/formats/tensors/half.h"
#include "common/formats/tensors/nibble_values.h"

// A super-block is quantised in four steps.
//
//   1. Each sub-block by itself: find the real scale (Q4_K, Q5_K: and offset) that lets whole
//      numbers (IQ4: its sixteen values) come closest to its floats. Dividing the range evenly is
//      only a first guess: a grid a little coarser or finer often fits better. So a handful of
//      grids is tried; each assigns every float its whole number, for these numbers the best scale
//      is a weighted least-squares fit in closed form, and the grid whose fit leaves the least
//      error wins.
//   2. The scales are themselves quantised, to whole multiples of one half-precision step.
//   3. What was best among the reals need not be best among the multiples: neighbouring ones are
//      tried, and kept while they help. On bell-shaped weights this takes 1.5 % off the error, and
//      more than half where the offsets are large and their steps coarse.
//   4. With the scales as they will be read back, every float is rounded once more.
//
// Large weights count for more in 1 and 3 (they meet the activations that matter), as in ggml,
// whose search 1 and 2 are in substance.
//
// Sums run over four lanes that are added at the end, in the same order on every machine; what
// decides between grids is then computed in double. The operations are IEEE's +, -, *, / and square
// root, nothing from a maths library, and the default rounding mode is assumed.

namespace outrider {
namespace {

constexpr int kLaneCount = 4;
using Lanes = float __attribute__((vector_size(kLaneCount * sizeof(float))));

Lanes Load(const float* x) {
  Lanes lanes;
  std::memcpy(&lanes, x, sizeof(lanes));
  return lanes;
}

void Store(Lanes lanes, float* x) {
  std::memcpy(x, &lanes, sizeof(lanes));
}

Lanes Min(Lanes a, Lanes b) {
  return a < b ? a : b;
}

Lanes Max(Lanes a, Lanes b) {
  return a > b ? a : b;
}

Lanes All(float value) {
  return Lanes{value, value, value, value};
}

double Sum(Lanes lanes) {
  return (static_cast<double>(lanes[0]) + lanes[1]) + (static_cast<double>(lanes[2]) + lanes[3]);
}

// To the nearest whole number, ties to even, for magnitudes below 2^22: at 1.5 * 2^23 a float's
// last place is worth one.
template <typename Number>
Number Round(Number x) {
  constexpr float kUnitPlace = 0x1.8p23f;
  return (x + kUnitPlace) - kUnitPlace;
}

// The half-precision step of which `largest` is `count` steps, as it will be read back. (A fit may
// lie a little beyond the floats it fits, and so beyond what a half holds.)
float StepFor(float largest, int count, uint16_t& half) {
  half = FloatToHalf(std::clamp(largest / static_cast<float>(count), -kLargestHalf, kLargestHalf));
  if ((half & 0x7fff) == 0) half = 0;  // of the two zeros, the one that decodes to no -0
  return HalfToFloat(half);
}

int StepsIn(float value, float step, int lowest, int highest) {
  if (step == 0) return 0;
  const float steps =
      std::clamp(value / step, static_cast<float>(lowest), static_cast<float>(highest));
  return static_cast<int>(Round(steps));
}

void PutHalf(uint16_t half, uint8_t* bytes) {
  bytes[0] = static_cast<uint8_t>(half & 255);
  bytes[1] = static_cast<uint8_t>(half >> 8);
}

// ---------------------------------------------------------------------------------- Q4_K, Q5_K
// Eight sub-blocks of 32:  x ~ scale * q - offset,  q in 0..kHighest, 15 or 31, scale and offset
// never negative.

constexpr int kQ4Elements = 32;
constexpr int kQ4SubBlocks = 8;

struct ScaleOffset {
  float scale;
  float offset;
};

// How much each element counts.
struct Weights {
  alignas(16) float of[kQ4Elements];
};

// A sub-block moved and stretched to 0..1.
struct UnitInterval {
  alignas(16) float u[kQ4Elements];  // (x - low) / range
  alignas(16) float weighted_u[kQ4Elements];
  double sum_w;
  double sum_wu;
};

// What least squares needs to know about one choice of whole numbers q.
struct Moments {
  double wq;
  double wqq;
  double wqu;
};

// u ~ slope * q + shift. `gain` is how much of the weighted sum of squares of u the fit explains.
struct Line {
  double slope;
  double shift;
  double gain;
};

Weights WeighQ4(const float* x) {
  Weights weights;
  Lanes squares{};
  for (int i = 0; i < kQ4Elements; i += kLaneCount) squares += Load(x + i) * Load(x + i);
  const Lanes rms = All(std::sqrt(static_cast<float>(Sum(squares) / kQ4Elements)));
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    Store(rms + Max(Load(x + i), -Load(x + i)), weights.of + i);
  }
  return weights;
}

UnitInterval Stretch(const float* x, const Weights& weights, float low, float range) {
  UnitInterval unit;
  Lanes sum_w{};
  Lanes sum_wu{};
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    const Lanes u = (Load(x + i) - low) / range;
    const Lanes weighted_u = Load(weights.of + i) * u;
    Store(u, unit.u + i);
    Store(weighted_u, unit.weighted_u + i);
    sum_w += Load(weights.of + i);
    sum_wu += weighted_u;
  }
  unit.sum_w = Sum(sum_w);
  unit.sum_wu = Sum(sum_wu);
  return unit;
}

template <int kHighest>
Moments MomentsOfGrid(const UnitInterval& unit, const Weights& weights, float levels) {
  Lanes wq{};
  Lanes wqq{};
  Lanes wqu{};
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    const Lanes q = Round(Min(Load(unit.u + i) * levels, All(kHighest)));
    const Lanes weighted = Load(weights.of + i) * q;
    wq += weighted;
    wqq += weighted * q;
    wqu += Load(unit.weighted_u + i) * q;
  }
  return {Sum(wq), Sum(wqq), Sum(wqu)};
}

double GainOf(const UnitInterval& unit, const Moments& m, double slope, double shift) {
  return 2 * (slope * m.wqu + shift * unit.sum_wu) - slope * slope * m.wqq -
         2 * slope * shift * m.wq - shift * shift * unit.sum_w;
}

// The best line whose shift is at most `highest_shift` (where the offset would turn negative).
Line FitLine(const UnitInterval& unit, const Moments& m, double highest_shift) {
  const double determinant = unit.sum_w * m.wqq - m.wq * m.wq;
  // Smaller than this it is rounding error: all elements got the same number, and any line through
  // that one point is as good. Then, as when the shift would be too high, the shift is given.
  if (determinant > 4e-6 * unit.sum_w * m.wqq) {
    const double shift = (m.wqq * unit.sum_wu - m.wq * m.wqu) / determinant;
    if (shift <= highest_shift) {
      const double slope = (unit.sum_w * m.wqu - m.wq * unit.sum_wu) / determinant;
      return {slope, shift, GainOf(unit, m, slope, shift)};
    }
  }
  if (m.wqq <= 0) return {0, 0, 0};
  const double slope = (m.wqu - highest_shift * m.wq) / m.wqq;
  return {slope, highest_shift, GainOf(unit, m, slope, highest_shift)};
}

template <int kHighest>
ScaleOffset FitQ4(const float* x, const Weights& weights) {
  Lanes lows{};  // zero: an offset cannot be negative, so the grid starts at zero or below
  Lanes highs = Load(x);
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    lows = Min(lows, Load(x + i));
    highs = Max(highs, Load(x + i));
  }
  const float low = std::min({lows[0], lows[1], lows[2], lows[3]});
  const float range = std::max({highs[0], highs[1], highs[2], highs[3]}) - low;
  if (range == 0) return {0, -low};

  const UnitInterval unit = Stretch(x, weights, low, range);
  const double highest_shift = -static_cast<double>(low) / range;
  Line best = {1 / static_cast<float>(kHighest), 0, 0};
  best.gain =
      GainOf(unit, MomentsOfGrid<kHighest>(unit, weights, kHighest), best.slope, best.shift);
  for (int grid = -5; grid <= 5; ++grid) {
    const float levels = kHighest + 0.2f * static_cast<float>(grid);
    const Line line = FitLine(unit, MomentsOfGrid<kHighest>(unit, weights, levels), highest_shift);
    if (line.gain > best.gain) best = line;
  }
  return {static_cast<float>(best.slope * range),
          std::max(0.0f, static_cast<float>(-low - best.shift * range))};
}

// A sub-block's scale and offset, in steps.
struct StepsQ4 {
  int scale;
  int offset;
};

// Byte by byte the inverse of UnpackScaleMin in dequantize.cc.
void PackScaleMins(const std::array<StepsQ4, kQ4SubBlocks>& steps, uint8_t* bytes) {
  for (int j = 0; j < 4; ++j) {
    const StepsQ4 low = steps[j];
    const StepsQ4 high = steps[j + 4];
    bytes[j] = static_cast<uint8_t>(low.scale | high.scale >> 4 << 6);
    bytes[j + 4] = static_cast<uint8_t>(low.offset | high.offset >> 4 << 6);
    bytes[j + 8] = static_cast<uint8_t>((high.scale & 15) | (high.offset & 15) << 4);
  }
}

template <int kHighest>
double ErrorQ4(const float* x, const Weights& weights, float scale, float offset) {
  const Lanes inverse = All(scale == 0 ? 0 : 1 / scale);
  Lanes error{};
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    const Lanes steps = (Load(x + i) + offset) * inverse;
    const Lanes q = Round(Max(Min(steps, All(kHighest)), All(0)));
    const Lanes miss = q * scale - offset - Load(x + i);
    error += Load(weights.of + i) * (miss * miss);
  }
  return Sum(error);
}

// Walks from neighbour to neighbour, each with less error than the one before, until there is none.
// A step or two, as a rule; more where the scales are too small for a half and vanish.
template <int kHighest>
StepsQ4 BestNearbyQ4(const float* x, const Weights& weights, float scale_step, float offset_step,
                     StepsQ4 best) {
  const auto error_of = [&](StepsQ4 steps) {
    return ErrorQ4<kHighest>(x, weights, scale_step * static_cast<float>(steps.scale),
                             offset_step * static_cast<float>(steps.offset));
  };
  double least = error_of(best);
  while (true) {
    const StepsQ4 from = best;
    for (int scale = std::max(from.scale - 1, 0); scale <= std::min(from.scale + 1, 63); ++scale) {
      for (int offset = std::max(from.offset - 1, 0); offset <= std::min(from.offset + 1, 63);
           ++offset) {
        const double error = error_of({scale, offset});
        if (error < least) {
          least = error;
          best = {scale, offset};
        }
      }
    }
    if (best.scale == from.scale && best.offset == from.offset) return best;
  }
}

template <int kHighest>
void RoundQ4(const float* x, float scale, float offset, uint8_t* q) {
  if (scale == 0) {
    std::memset(q, 0, kQ4Elements);
    return;
  }
  for (int i = 0; i < kQ4Elements; i += kLaneCount) {
    const Lanes steps = (Load(x + i) + offset) / scale;
    const Lanes rounded = Round(Max(Min(steps, All(kHighest)), All(0)));
    for (int k = 0; k < kLaneCount; ++k) q[i + k] = static_cast<uint8_t>(rounded[k]);
  }
}

// ---------------------------------------------------------------------------------------- Q6_K
// Sixteen sub-blocks of 16:  x ~ scale * q,  q in -32..31, the scale of either sign.

constexpr int kQ6Elements = 16;
constexpr int kQ6SubBlocks = 16;
constexpr float kQ6Lowest = -32;
constexpr float kQ6Highest = 31;

float FitQ6(const float* x) {
  float peak = 0;  // the element of largest magnitude, with its sign
  for (int i = 0; i < kQ6Elements; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  if (peak == 0) return 0;

  // In units of the peak, and weighted by the square.
  alignas(16) float u[kQ6Elements];
  alignas(16) float weight[kQ6Elements];
  for (int i = 0; i < kQ6Elements; ++i) {
    u[i] = x[i] / peak;
    weight[i] = u[i] * u[i];
  }
  double best_slope = 0;
  double best_gain = 0;
  for (int grid = -9; grid <= 9; ++grid) {
    const float levels = kQ6Lowest + 0.1f * static_cast<float>(grid);  // the peak goes to -32
    Lanes wqq{};
    Lanes wqu{};
    for (int i = 0; i < kQ6Elements; i += kLaneCount) {
      const Lanes steps = Load(u + i) * levels;
      const Lanes q = Round(Max(Min(steps, All(kQ6Highest)), All(kQ6Lowest)));
      const Lanes weighted = Load(weight + i) * q;
      wqq += weighted * q;
      wqu += weighted * Load(u + i);
    }
    const double slope = Sum(wqu) / Sum(wqq);  // not zero: the peak weighs 1 and lies near -32
    const double gain = slope * Sum(wqu);
    if (gain > best_gain) {
      best_gain = gain;
      best_slope = slope;
    }
  }
  return static_cast<float>(best_slope * peak);
}

double ErrorQ6(const float* x, float scale) {
  const Lanes inverse = All(scale == 0 ? 0 : 1 / scale);
  Lanes error{};
  for (int i = 0; i < kQ6Elements; i += kLaneCount) {
    const Lanes steps = Load(x + i) * inverse;
    const Lanes q = Round(Max(Min(steps, All(kQ6Highest)), All(kQ6Lowest)));
    const Lanes weighted_miss = Load(x + i) * (q * scale - Load(x + i));
    error += weighted_miss * weighted_miss;
  }
  return Sum(error);
}

int BestNearbyQ6(const float* x, float step, int best) {
  const int from = best;
  double least = ErrorQ6(x, step * static_cast<float>(from));
  for (int scale = std::max(from - 1, -128); scale <= std::min(from + 1, 127); ++scale) {
    const double error = ErrorQ6(x, step * static_cast<float>(scale));
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

void RoundQ6(const float* x, float scale, uint8_t* q) {
  if (scale == 0) {
    std::memset(q, static_cast<int>(-kQ6Lowest), kQ6Elements);
    return;
  }
  for (int i = 0; i < kQ6Elements; i += kLaneCount) {
    const Lanes steps = Load(x + i) / scale;
    const Lanes rounded = Round(Max(Min(steps, All(kQ6Highest)), All(kQ6Lowest))) - kQ6Lowest;
    for (int k = 0; k < kLaneCount; ++k) q[i + k] = static_cast<uint8_t>(rounded[k]);
  }
}

// ------------------------------------------------------------------------------ IQ4_NL, IQ4_XS
// Blocks of 32:  x ~ scale * v,  v one of sixteen values, the scale of either sign.

constexpr int kIq4Elements = 32;

Lanes NearestValue(Lanes x) {
  Lanes value = All(kIq4Values[0]);
  for (int i = 0; i < 15; ++i) {
    const float between = 0.5f * static_cast<float>(kIq4Values[i] + kIq4Values[i + 1]);
    value = x < between ? value : All(kIq4Values[i + 1]);
  }
  return value;
}

float FitIq4(const float* x) {
  float peak = 0;  // the element of largest magnitude, with its sign
  for (int i = 0; i < kIq4Elements; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  if (peak == 0) return 0;

  // In units of the peak, and weighted by the square.
  alignas(16) float u[kIq4Elements];
  alignas(16) float weight[kIq4Elements];
  for (int i = 0; i < kIq4Elements; ++i) {
    u[i] = x[i] / peak;
    weight[i] = u[i] * u[i];
  }
  double best_slope = 0;
  double best_gain = 0;
  for (int grid = -7; grid <= 7; ++grid) {
    const float levels = static_cast<float>(kIq4Values[0] + grid);  // the peak goes to the lowest
    Lanes wvv{};
    Lanes wvu{};
    for (int i = 0; i < kIq4Elements; i += kLaneCount) {
      const Lanes value = NearestValue(Load(u + i) * levels);
      const Lanes weighted = Load(weight + i) * value;
      wvv += weighted * value;
      wvu += weighted * Load(u + i);
    }
    const double slope = Sum(wvu) / Sum(wvv);  // not zero: no value is, and the peak weighs 1
    const double gain = slope * Sum(wvu);
    if (gain > best_gain) {
      best_gain = gain;
      best_slope = slope;
    }
  }
  return static_cast<float>(best_slope * peak);
}

double ErrorIq4(const float* x, float scale) {
  const Lanes inverse = All(scale == 0 ? 0 : 1 / scale);
  Lanes error{};
  for (int i = 0; i < kIq4Elements; i += kLaneCount) {
    const Lanes value = NearestValue(Load(x + i) * inverse);
    const Lanes weighted_miss = Load(x + i) * (value * scale - Load(x + i));
    error += weighted_miss * weighted_miss;
  }
  return Sum(error);
}

int BestNearbyIq4(const float* x, float step, int best) {
  const int from = best;
  double least = ErrorIq4(x, step * static_cast<float>(from));
  for (int scale = std::max(from - 1, -32); scale <= std::min(from + 1, 31); ++scale) {
    const double error = ErrorIq4(x, step * static_cast<float>(scale));
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

// Which of the values, in nibbles: 16 bytes.
void PutIq4Nibbles(const float* x, float scale, uint8_t* nibbles) {
  constexpr uint8_t kSmallestAboveZero = 8;  // with a scale of zero it decodes to no -0
  uint8_t index[kIq4Elements];
  for (int i = 0; i < kIq4Elements; ++i) {
    const float wanted = scale == 0 ? 0 : x[i] / scale;
    const auto value = static_cast<int8_t>(NearestValue(All(wanted))[0]);
    index[i] = static_cast<uint8_t>(std::ranges::find(kIq4Values, value) - kIq4Values);
    if (scale == 0) index[i] = kSmallestAboveZero;
  }
  for (int i = 0; i < 16; ++i) nibbles[i] = static_cast<uint8_t>(index[i] | index[16 + i] << 4);
}

// Both types' scales and quants: the first 16 bytes of the block, and q.
template <int kHighest>
void QuantizeWithOffsets(const float* x, uint8_t* block, uint8_t (&q)[256]) {
  std::array<Weights, kQ4SubBlocks> weights;
  std::array<ScaleOffset, kQ4SubBlocks> fits;
  ScaleOffset largest = {0, 0};
  for (int j = 0; j < kQ4SubBlocks; ++j) {
    weights[j] = WeighQ4(x + j * kQ4Elements);
    fits[j] = FitQ4<kHighest>(x + j * kQ4Elements, weights[j]);
    largest.scale = std::max(largest.scale, fits[j].scale);
    largest.offset = std::max(largest.offset, fits[j].offset);
  }
  uint16_t scale_half;
  uint16_t offset_half;
  const float scale_step = StepFor(largest.scale, 63, scale_half);
  const float offset_step = StepFor(largest.offset, 63, offset_half);
  std::array<StepsQ4, kQ4SubBlocks> steps;
  for (int j = 0; j < kQ4SubBlocks; ++j) {
    const float* const sub_block = x + j * kQ4Elements;
    steps[j] = BestNearbyQ4<kHighest>(
        sub_block, weights[j], scale_step, offset_step,
        {StepsIn(fits[j].scale, scale_step, 0, 63), StepsIn(fits[j].offset, offset_step, 0, 63)});
    RoundQ4<kHighest>(sub_block, scale_step * static_cast<float>(steps[j].scale),
                      offset_step * static_cast<float>(steps[j].offset), q + j * kQ4Elements);
  }
  PutHalf(scale_half, block);
  PutHalf(offset_half, block + 2);
  PackScaleMins(steps, block + 4);
}

// The lower four bits of q: 32 bytes hold two sub-blocks.
void PutNibbles(const uint8_t (&q)[256], uint8_t* nibbles) {
  for (int pair = 0; pair < 4; ++pair) {
    const uint8_t* const low = q + 64 * pair;
    const uint8_t* const high = low + 32;
    for (int i = 0; i < 32; ++i) {
      nibbles[32 * pair + i] = static_cast<uint8_t>((low[i] & 15) | (high[i] & 15) << 4);
    }
  }
}

}  // namespace

void QuantizeQ4_K(const float* x, uint8_t* block) {
  uint8_t q[256];
  QuantizeWithOffsets<15>(x, block, q);
  PutNibbles(q, block + 16);
}

void QuantizeQ5_K(const float* x, uint8_t* block) {
  uint8_t q[256];
  QuantizeWithOffsets<31>(x, block, q);
  for (int i = 0; i < 32; ++i) {
    int fifth = 0;
    for (int j = 0; j < 8; ++j) fifth |= q[32 * j + i] >> 4 << j;
    block[16 + i] = static_cast<uint8_t>(fifth);
  }
  PutNibbles(q, block + 48);
}

void QuantizeQ6_K(const float* x, uint8_t* block) {
  std::array<float, kQ6SubBlocks> fits;
  float largest = 0;
  for (int j = 0; j < kQ6SubBlocks; ++j) {
    fits[j] = FitQ6(x + j * kQ6Elements);
    if (std::fabs(fits[j]) > std::fabs(largest)) largest = fits[j];
  }
  uint16_t half;
  const float step = StepFor(largest, -128, half);
  uint8_t q[256];
  for (int j = 0; j < kQ6SubBlocks; ++j) {
    const float* const sub_block = x + j * kQ6Elements;
    const int scale = BestNearbyQ6(sub_block, step, StepsIn(fits[j], step, -128, 127));
    block[192 + j] = static_cast<uint8_t>(scale);
    RoundQ6(sub_block, step * static_cast<float>(scale), q + j * kQ6Elements);
  }
  PutHalf(half, block + 208);
  for (int n = 0; n < 2; ++n) {
    const uint8_t* const quarter = q + 128 * n;  // four of 32 elements
    for (int i = 0; i < 32; ++i) {
      const int q0 = quarter[i];
      const int q1 = quarter[32 + i];
      const int q2 = quarter[64 + i];
      const int q3 = quarter[96 + i];
      block[64 * n + i] = static_cast<uint8_t>((q0 & 15) | (q2 & 15) << 4);
      block[64 * n + 32 + i] = static_cast<uint8_t>((q1 & 15) | (q3 & 15) << 4);
      block[128 + 32 * n + i] =
          static_cast<uint8_t>(q0 >> 4 | q1 >> 4 << 2 | q2 >> 4 << 4 | q3 >> 4 << 6);
    }
  }
}

void QuantizeIQ4_NL(const float* x, uint8_t* block) {
  uint16_t half;
  const float scale = StepFor(FitIq4(x), 1, half);
  PutHalf(half, block);
  PutIq4Nibbles(x, scale, block + 2);
}

void QuantizeIQ4_XS(const float* x, uint8_t* block) {
  std::array<float, 8> fits;
  float largest = 0;
  for (int j = 0; j < 8; ++j) {
    fits[j] = FitIq4(x + j * kIq4Elements);
    if (std::fabs(fits[j]) > std::fabs(largest)) largest = fits[j];
  }
  uint16_t half;
  const float step = StepFor(largest, -32, half);
  uint16_t upper = 0;
  std::memset(block + 4, 0, 4);
  for (int j = 0; j < 8; ++j) {
    const float* const sub_block = x + j * kIq4Elements;
    const int scale = BestNearbyIq4(sub_block, step, StepsIn(fits[j], step, -32, 31));
    const int stored = scale + 32;
    block[4 + j / 2] = static_cast<uint8_t>(block[4 + j / 2] | (stored & 15) << 4 * (j % 2));
    upper = static_cast<uint16_t>(upper | stored >> 4 << 2 * j);
    PutIq4Nibbles(sub_block, step * static_cast<float>(scale), block + 8 + 16 * j);
  }
  PutHalf(half, block);
  PutHalf(upper, block + 2);
}

}  // namespace outrider
