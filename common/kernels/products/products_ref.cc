// NUMERICS.md, section 4, spelled out: one output of one row at a time, over panels as
// panel_layout.h draws them. The definition of right; never tuned.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/formats/tensors/half.h"
#include "common/formats/tensors/nibble_values.h"
#include "common/formats/tensors/panel_layout.h"
#include "common/kernels/activations.h"
#include "common/kernels/products/product_tables.h"

namespace outrider {
namespace {

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// One block of one output of a panel.
struct Block {
  const std::byte* lines;   // of the block
  const std::byte* halves;  // of the block
  uint32_t n;               // the output

  // Byte `i` of the dwords that the block's lines hold.
  uint8_t Byte(uint32_t i) const {
    return Load<uint8_t>(lines + i / 4 * kLineBytes + 4 * n + i % 4);
  }
  uint16_t HalfBits(uint32_t h) const { return Load<uint16_t>(halves + h * kHalvesBytes + 2 * n); }
  float Half(uint32_t h) const { return HalfToFloat(HalfBits(h)); }
};

// One block of one row of activations.
struct QuantisedBlock {
  const int8_t* quants;
  float scale;
  const int16_t* sums;
};

float AddQ8_0(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += static_cast<int8_t>(w.Byte(k)) * x.quants[k];
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

float AddQ4_0(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 16; ++k) {
    i += ((w.Byte(k) & 15) - 8) * x.quants[k];
    i += ((w.Byte(k) >> 4) - 8) * x.quants[k + 16];
  }
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

// Of all 32 elements.
int32_t SumOf(const QuantisedBlock& x) {
  return x.sums[0] + x.sums[1];
}

// Elements k and k + 16 are the nibbles of byte k.
int32_t NibbleOf(const Block& w, uint32_t k) {
  return w.Byte(k % 16) >> 4 * (k / 16) & 15;
}

float AddQ4_1(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += NibbleOf(w, k) * x.quants[k];
  y = std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
  return std::fma(static_cast<float>(SumOf(x)), w.Half(1) * x.scale, y);
}

int32_t Q5Quant(const Block& w, uint32_t k) {
  const int low = w.Byte(4 * kQ5_0NibbleLine + k % 16) >> 4 * (k / 16) & 15;
  return low | (w.Byte(k % 4) >> k / 4 & 1) << 4;
}

float AddQ5_0(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += (Q5Quant(w, k) - 16) * x.quants[k];
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

float AddQ5_1(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += Q5Quant(w, k) * x.quants[k];
  y = std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
  return std::fma(static_cast<float>(SumOf(x)), w.Half(1) * x.scale, y);
}

float AddIQ4_NL(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += kIq4Values[NibbleOf(w, k)] * x.quants[k];
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

float AddMXFP4(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t k = 0; k < 32; ++k) i += kMxfp4Values[NibbleOf(w, k)] * x.quants[k];
  return std::fma(static_cast<float>(i), Bfloat16ToFloat(w.HalfBits(0)) * x.scale, y);
}

// The twelve bytes of 6-bit scales and minima, as dequantize.cc draws them.
int32_t Q4_KScale(const Block& w, uint32_t j) {
  return j < 4 ? w.Byte(j) & 63 : (w.Byte(j + 4) & 15) | w.Byte(j - 4) >> 6 << 4;
}

int32_t Q4_KMin(const Block& w, uint32_t j) {
  return j < 4 ? w.Byte(j + 4) & 63 : w.Byte(j + 4) >> 4 | w.Byte(j) >> 6 << 4;
}

int32_t Q4_KQuant(const Block& w, uint32_t k) {
  return w.Byte(4 * kQ4_KNibbleLine + k / 64 * 32 + k % 32) >> 4 * (k / 32 % 2) & 15;
}

int32_t Q5_KQuant(const Block& w, uint32_t k) {
  const int low = w.Byte(4 * kQ5_KNibbleLine + k / 64 * 32 + k % 32) >> 4 * (k / 32 % 2) & 15;
  return low | (w.Byte(4 * kQ5_KFifthLine + k % 32) >> k / 32 & 1) << 4;
}

template <int32_t (*Quant)(const Block&, uint32_t)>
float AddQ4_KOrQ5_K(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  int32_t mins = 0;
  for (uint32_t j = 0; j < 8; ++j) {
    int32_t dot = 0;
    for (uint32_t k = 32 * j; k < 32 * j + 32; ++k) dot += Quant(w, k) * x.quants[k];
    i += Q4_KScale(w, j) * dot;
    mins += Q4_KMin(w, j) * (x.sums[2 * j] + x.sums[2 * j + 1]);
  }
  y = std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
  return std::fma(static_cast<float>(-mins), w.Half(1) * x.scale, y);
}

float AddQ6_K(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    const uint32_t half = j / 8;         // of the block, 128 elements
    const uint32_t quarter = j % 8 / 2;  // of that, 32 elements
    int32_t dot = 0;
    for (uint32_t k = 0; k < 16; ++k) {
      const uint32_t at = 16 * (j % 2) + k;  // in the quarter
      const int low = w.Byte(64 * half + 32 * (quarter % 2) + at) >> 4 * (quarter / 2) & 15;
      const int high = w.Byte(4 * kQ6_KUpperLine + 32 * half + at) >> 2 * quarter & 3;
      dot += ((low | high << 4) - 32) * x.quants[16 * j + k];
    }
    i += static_cast<int8_t>(w.Byte(4 * kQ6_KScaleLine + j)) * dot;
  }
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

// Two bits of element k: those of four quarters of a half share a byte.
int32_t PairOf(const Block& w, uint32_t first_line, uint32_t k) {
  return w.Byte(4 * first_line + k / 128 * 32 + k % 32) >> 2 * (k / 32 % 4) & 3;
}

float AddQ2_K(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  int32_t mins = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    int32_t dot = 0;
    for (uint32_t k = 16 * j; k < 16 * j + 16; ++k)
      dot += PairOf(w, kQ2_KPairLine, k) * x.quants[k];
    i += (w.Byte(j) & 15) * dot;
    mins += (w.Byte(j) >> 4) * x.sums[j];
  }
  y = std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
  return std::fma(static_cast<float>(-mins), w.Half(1) * x.scale, y);
}

int32_t Q3_KScale(const Block& w, uint32_t j) {
  const int low = w.Byte(4 * kQ3_KScaleLine + j % 8) >> 4 * (j / 8) & 15;
  const int high = w.Byte(4 * kQ3_KScaleLine + 8 + j % 4) >> 2 * (j / 4) & 3;
  return (low | high << 4) - 32;
}

float AddQ3_K(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    int32_t dot = 0;
    for (uint32_t k = 16 * j; k < 16 * j + 16; ++k) {
      const int third = w.Byte(k % 32) >> k / 32 & 1;
      dot += ((PairOf(w, kQ3_KPairLine, k) | third << 2) - 4) * x.quants[k];
    }
    i += Q3_KScale(w, j) * dot;
  }
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

float AddIQ4_XS(const Block& w, const QuantisedBlock& x, float y) {
  int32_t i = 0;
  for (uint32_t j = 0; j < 8; ++j) {
    int32_t dot = 0;
    for (uint32_t k = 0; k < 32; ++k) {
      const uint8_t byte = w.Byte(4 * kIQ4_XSNibbleLine + 16 * j + k % 16);
      dot += kIq4Values[byte >> 4 * (k / 16) & 15] * x.quants[32 * j + k];
    }
    const int low = w.Byte(j / 2) >> 4 * (j % 2) & 15;
    i += ((low | (w.HalfBits(1) >> 2 * j & 3) << 4) - 32) * dot;
  }
  return std::fma(static_cast<float>(i), w.Half(0) * x.scale, y);
}

template <const QuantPanel& kShape, float (*Add)(const Block&, const QuantisedBlock&, float)>
void MultiplyQuants(const std::byte* panels, uint32_t /*panel_count*/, uint32_t output_count,
                    const ActivationRows& x, float* out, size_t out_stride) {
  const size_t panel_size = PanelSize(kShape, x.inputs);
  for (uint32_t r = 0; r < x.row_count; ++r) {
    for (uint32_t output = 0; output < output_count; ++output) {
      const std::byte* const panel = panels + output / kPanelOutputs * panel_size;
      const std::byte* const halves = panel + HalvesOffset(kShape, x.inputs);
      float y = 0;
      for (uint32_t b = 0; b < x.inputs / kShape.block; ++b) {
        const Block w = {.lines = panel + size_t{b} * kShape.lines * kLineBytes,
                         .halves = halves + size_t{b} * kShape.halves * kHalvesBytes,
                         .n = output % kPanelOutputs};
        const QuantisedBlock block = {
            .quants = x.quants + r * x.quant_stride + size_t{b} * kShape.block,
            .scale = x.scales[b * x.scale_stride + r],
            .sums = x.sums + r * x.sum_stride + size_t{b} * (kShape.block / 16)};
        y = Add(w, block, y);
      }
      out[r * out_stride + output] = y;
    }
  }
}

float LoadF32(const std::byte* at) {
  return Load<float>(at);
}

float LoadF16(const std::byte* at) {
  return HalfToFloat(Load<uint16_t>(at));
}

float LoadBF16(const std::byte* at) {
  return Bfloat16ToFloat(Load<uint16_t>(at));
}

template <size_t kElementBytes, float (*LoadElement)(const std::byte*)>
void MultiplyFloats(const std::byte* panels, uint32_t /*panel_count*/, uint32_t output_count,
                    const ActivationRows& x, float* out, size_t out_stride) {
  constexpr uint32_t kSegment = 32;
  const size_t panel_size = PlainPanelSize(kElementBytes, x.inputs);
  for (uint32_t r = 0; r < x.row_count; ++r) {
    const float* const row = x.values + r * x.value_stride;
    for (uint32_t output = 0; output < output_count; ++output) {
      const std::byte* const panel = panels + output / kPanelOutputs * panel_size;
      float y = 0;
      for (uint32_t begin = 0; begin < x.inputs; begin += kSegment) {
        float s = 0;
        for (uint32_t k = begin; k < std::min(begin + kSegment, x.inputs); ++k) {
          const size_t element = size_t{k} * kPanelOutputs + output % kPanelOutputs;
          s = std::fma(LoadElement(panel + element * kElementBytes), row[k], s);
        }
        y = y + s;
      }
      out[r * out_stride + output] = y;
    }
  }
}

}  // namespace

const ProductKernels kScalarProducts = {
    .f32 = MultiplyFloats<4, LoadF32>,
    .f16 = MultiplyFloats<2, LoadF16>,
    .bf16 = MultiplyFloats<2, LoadBF16>,
    .q8_0 = MultiplyQuants<kQ8_0Panel, AddQ8_0>,
    .q4_0 = MultiplyQuants<kQ4_0Panel, AddQ4_0>,
    .q4_1 = MultiplyQuants<kQ4_1Panel, AddQ4_1>,
    .q5_0 = MultiplyQuants<kQ5_0Panel, AddQ5_0>,
    .q5_1 = MultiplyQuants<kQ5_1Panel, AddQ5_1>,
    .iq4_nl = MultiplyQuants<kIQ4_NLPanel, AddIQ4_NL>,
    .mxfp4 = MultiplyQuants<kMXFP4Panel, AddMXFP4>,
    .q4_k = MultiplyQuants<kQ4_KPanel, AddQ4_KOrQ5_K<Q4_KQuant>>,
    .q5_k = MultiplyQuants<kQ5_KPanel, AddQ4_KOrQ5_K<Q5_KQuant>>,
    .q6_k = MultiplyQuants<kQ6_KPanel, AddQ6_K>,
    .q2_k = MultiplyQuants<kQ2_KPanel, AddQ2_K>,
    .q3_k = MultiplyQuants<kQ3_KPanel, AddQ3_K>,
    .iq4_xs = MultiplyQuants<kIQ4_XSPanel, AddIQ4_XS>,
};

}  // namespace outrider
