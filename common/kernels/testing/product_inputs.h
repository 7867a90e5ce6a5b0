// Panels and activation rows made up from a seed, for tests and benchmarks of product kernels. In
// plain C++, so that the same program also runs where only a cross compiler and an emulator are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/formats/tensors/panel_layout.h"
#include "common/kernels/activations.h"
#include "common/kernels/kernels.h"

namespace outrider {

// SplitMix64: the same numbers everywhere, which <random>'s distributions do not promise.
class Seeded {
 public:
  explicit Seeded(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>((Next() >> 32) * bound >> 32); }
  // In (-1, 1), exactly representable.
  float Unit() {
    return static_cast<float>(static_cast<int32_t>(Next() >> 40) - (1 << 23)) * 0x1p-23f;
  }

 private:
  uint64_t state_;
};

enum class Weights {
  kRandom,     // any quants, scales of ordinary size
  kZeroBits,   // all quants zero, which is their lowest, or the middle for Q8_0
  kOneBits,    // all bits one: the highest quants, scales and minima
  kLowest,     // Q8_0: -128 everywhere; Q6_K: scales of -128 with quants at their lowest
  kAnyScales,  // f16 scales of any bits: subnormal, infinite, NaN
};

enum class Rows {
  kRandom,
  kHighest,      // +127 everywhere
  kLowest,       // -127 everywhere
  kAlternating,  // +127, -127, ...
  kZero,
  kTiny,       // scales near the smallest floats, so that products are subnormal
  kNotFinite,  // some blocks with a NaN for a scale
};

// The panel types, with what differs between them.
struct PanelType {
  const char* name;
  PanelProduct* ProductKernels::*kernel;
  const QuantPanel* quants;  // null for floats
  size_t element_bytes;      // of floats

  uint32_t block() const { return quants != nullptr ? quants->block : 1; }
  size_t Size(uint32_t inputs) const {
    return quants != nullptr ? PanelSize(*quants, inputs) : PlainPanelSize(element_bytes, inputs);
  }
};

inline constexpr PanelType kPanelTypes[] = {
    {"F32", &ProductKernels::f32, nullptr, 4},
    {"F16", &ProductKernels::f16, nullptr, 2},
    {"BF16", &ProductKernels::bf16, nullptr, 2},
    {"Q8_0", &ProductKernels::q8_0, &kQ8_0Panel, 0},
    {"Q4_0", &ProductKernels::q4_0, &kQ4_0Panel, 0},
    {"Q4_1", &ProductKernels::q4_1, &kQ4_1Panel, 0},
    {"Q5_0", &ProductKernels::q5_0, &kQ5_0Panel, 0},
    {"Q5_1", &ProductKernels::q5_1, &kQ5_1Panel, 0},
    {"IQ4_NL", &ProductKernels::iq4_nl, &kIQ4_NLPanel, 0},
    {"MXFP4", &ProductKernels::mxfp4, &kMXFP4Panel, 0},
    {"Q4_K", &ProductKernels::q4_k, &kQ4_KPanel, 0},
    {"Q5_K", &ProductKernels::q5_k, &kQ5_KPanel, 0},
    {"Q6_K", &ProductKernels::q6_k, &kQ6_KPanel, 0},
    {"Q2_K", &ProductKernels::q2_k, &kQ2_KPanel, 0},
    {"Q3_K", &ProductKernels::q3_k, &kQ3_KPanel, 0},
    {"IQ4_XS", &ProductKernels::iq4_xs, &kIQ4_XSPanel, 0},
};

// 64-byte aligned bytes that end where they end: a vector would let kernels read past it unseen.
class Bytes {
 public:
  explicit Bytes(size_t size) : storage_(size + kLineBytes), size_(size) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (kLineBytes - address % kLineBytes) % kLineBytes;
  }
  size_t size() const { return size_; }

 private:
  std::vector<std::byte> storage_;
  size_t size_;
};

// A half of ordinary size: +-(1 + f) * 2^e, e in -8..-1.
inline uint16_t OrdinaryHalf(Seeded& seeded) {
  return static_cast<uint16_t>(seeded.Below(2) << 15 | (7 + seeded.Below(8)) << 10 |
                               seeded.Below(1024));
}

inline void FillFloatPanel(const PanelType& type, uint32_t inputs, Weights weights, Seeded& seeded,
                           std::byte* panel) {
  for (size_t i = 0; i < size_t{inputs} * kPanelOutputs; ++i) {
    const float value = weights == Weights::kZeroBits ? 0.0f : seeded.Unit();
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (type.element_bytes == 4) {
      std::memcpy(panel + 4 * i, &bits, 4);
      continue;
    }
    const bool bfloat16 = type.kernel == &ProductKernels::bf16;
    auto half = bfloat16 ? static_cast<uint16_t>(bits >> 16) : OrdinaryHalf(seeded);
    if (weights == Weights::kAnyScales && !bfloat16) half = static_cast<uint16_t>(seeded.Next());
    if (weights == Weights::kZeroBits) half = 0;
    std::memcpy(panel + 2 * i, &half, 2);
  }
}

inline void FillQuantPanel(const PanelType& type, uint32_t inputs, Weights weights, Seeded& seeded,
                           std::byte* panel) {
  const size_t halves_at = HalvesOffset(*type.quants, inputs);
  const bool bytes_are_quants = type.quants == &kQ8_0Panel;
  for (size_t i = 0; i < halves_at; ++i) {
    const size_t line = i / kLineBytes % type.quants->lines;
    const bool scale = type.quants == &kQ6_KPanel && line >= kQ6_KScaleLine;
    uint64_t byte = seeded.Next() & 255;
    if (weights == Weights::kZeroBits) byte = 0;
    if (weights == Weights::kOneBits) byte = bytes_are_quants || scale ? 127 : 255;
    if (weights == Weights::kLowest) byte = bytes_are_quants || scale ? 128 : 0;
    panel[i] = static_cast<std::byte>(byte);
  }
  for (size_t i = halves_at; i < type.Size(inputs); i += 2) {
    uint16_t half = weights == Weights::kAnyScales ? static_cast<uint16_t>(seeded.Next())
                                                   : OrdinaryHalf(seeded);
    if (type.quants->exponents) {  // powers of two as bfloat16, of which two are subnormal
      const auto exponent = static_cast<uint16_t>(
          weights == Weights::kAnyScales ? seeded.Below(256) : 118 + seeded.Below(8));
      half = static_cast<uint16_t>(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
    }
    // The other half of IQ4_XS is bits of scales.
    const bool bits = type.quants == &kIQ4_XSPanel && (i - halves_at) / kHalvesBytes % 2 == 1;
    if (bits && weights == Weights::kOneBits) half = 0xffff;
    if (bits && (weights == Weights::kZeroBits || weights == Weights::kLowest)) half = 0;
    std::memcpy(panel + i, &half, 2);
  }
}

inline Bytes MakePanels(const PanelType& type, uint32_t panel_count, uint32_t inputs,
                        Weights weights, uint64_t seed) {
  Seeded seeded(seed);
  Bytes panels(panel_count * type.Size(inputs));
  for (uint32_t p = 0; p < panel_count; ++p) {
    std::byte* const panel = panels.data() + p * type.Size(inputs);
    if (type.quants == nullptr) {
      FillFloatPanel(type, inputs, weights, seeded, panel);
    } else {
      FillQuantPanel(type, inputs, weights, seeded, panel);
    }
  }
  return panels;
}

// Activation rows in one form, and the memory they are in.
class RowsOf {
 public:
  RowsOf(uint32_t row_count, uint32_t inputs, uint32_t block, Rows rows, uint64_t seed)
      : quant_stride_((inputs + 63) / 64 * 64), quants_(row_count * quant_stride_) {
    Seeded seeded(seed);
    row_count_ = row_count;
    inputs_ = inputs;
    block_ = block;
    if (block == 1) {
      FillValues(rows, seeded);
    } else {
      FillQuants(rows, seeded);
    }
  }

  // The first `row_count` of the rows.
  ActivationRows First(uint32_t row_count) {
    return {.row_count = row_count,
            .inputs = inputs_,
            .values = values_.data(),
            .value_stride = inputs_,
            .quants = reinterpret_cast<const int8_t*>(quants_.data()),
            .quant_stride = quant_stride_,
            .scales = scales_.data(),
            .scale_stride = row_count_,
            .sums = sums_.data(),
            .sum_stride = inputs_ / 16};
  }

 private:
  void FillValues(Rows rows, Seeded& seeded) {
    const uint32_t nan_bits = 0x7fc00000;
    for (size_t i = 0; i < size_t{row_count_} * inputs_; ++i) {
      float value = rows == Rows::kZero ? 0.0f : seeded.Unit();
      if (rows == Rows::kTiny) value *= 0x1p-140f;
      if (rows == Rows::kNotFinite && seeded.Below(50) == 0) {
        std::memcpy(&value, &nan_bits, sizeof(value));
      }
      values_.push_back(value);
    }
  }

  void FillQuants(Rows rows, Seeded& seeded) {
    const uint32_t nan_bits = 0x7fc00000;
    scales_.resize(size_t{row_count_} * (inputs_ / block_));
    for (uint32_t r = 0; r < row_count_; ++r) {
      int16_t sum = 0;
      for (uint32_t k = 0; k < inputs_; ++k) {
        int value = static_cast<int>(seeded.Below(255)) - 127;
        if (rows == Rows::kHighest || (rows == Rows::kAlternating && k % 2 == 0)) value = 127;
        if (rows == Rows::kLowest || (rows == Rows::kAlternating && k % 2 == 1)) value = -127;
        if (rows == Rows::kZero) value = 0;
        quants_.data()[r * quant_stride_ + k] = static_cast<std::byte>(value);
        sum = static_cast<int16_t>(sum + value);
        if (k % 16 == 15) {
          sums_.push_back(sum);
          sum = 0;
        }
      }
      for (uint32_t b = 0; b < inputs_ / block_; ++b) {
        float scale = (seeded.Unit() + 1.0f) * 0.05f;
        if (rows == Rows::kZero) scale = 0;
        if (rows == Rows::kTiny) scale *= 0x1p-125f;
        if (rows == Rows::kNotFinite && seeded.Below(3) == 0) {
          std::memcpy(&scale, &nan_bits, sizeof(scale));
        }
        scales_[b * row_count_ + r] = scale;
      }
    }
  }

  uint32_t row_count_;
  uint32_t inputs_;
  uint32_t block_;
  size_t quant_stride_;
  std::vector<float> values_;
  Bytes quants_;
  std::vector<float> scales_;
  std::vector<int16_t> sums_;
};

}  // namespace outrider
