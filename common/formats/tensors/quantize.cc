#include "common/formats/tensors/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/half.h"
#include "common/formats/tensors/quantize_k.h"

namespace outrider {
namespace {

constexpr int kBlock = 32;

void PutU16(uint16_t value, uint8_t* bytes) {
  bytes[0] = static_cast<uint8_t>(value & 255);
  bytes[1] = static_cast<uint8_t>(value >> 8);
}

// A block's scale as it is stored, and what to multiply by to get into its units. A scale under
// half the smallest half is stored as zero, and everything with it: 1 / d could be infinite.
struct Scale {
  uint16_t stored;
  float inverse;
};

Scale ScaleOf(float d) {
  const uint16_t stored = FloatToHalf(d);
  if ((stored & 0x7fff) == 0) return {0, 0};
  return {stored, 1 / d};
}

// To the nearest whole number, ties away from zero, as roundf() without the library.
int RoundAway(float x) {
  const int whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);  // exact
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

// The magnitudes of floats are in the order of their bits, infinity and then NaN above all numbers;
// and a maximum of integers, unlike one of floats, compilers turn into vector code.
int32_t MagnitudeBits(float x) {
  return std::bit_cast<int32_t>(x) & 0x7fffffff;
}

template <int kCount>
int32_t LargestMagnitudeBits(const float* x) {
  int32_t largest = 0;
  for (int i = 0; i < kCount; ++i) largest = std::max(largest, MagnitudeBits(x[i]));
  return largest;
}

void EncodeF16(const float* __restrict x, uint8_t* __restrict b) {
  PutU16(FloatToHalf(*x), b);
}

void EncodeBF16(const float* __restrict x, uint8_t* __restrict b) {
  PutU16(FloatToBfloat16(*x), b);
}

// The largest magnitude becomes 127.
void EncodeQ8_0(const float* __restrict x, uint8_t* __restrict b) {
  const float largest = std::bit_cast<float>(LargestMagnitudeBits<kBlock>(x));
  const Scale scale = ScaleOf(largest / 127);
  PutU16(scale.stored, b);
  for (int i = 0; i < kBlock; ++i) b[2 + i] = static_cast<uint8_t>(RoundAway(x[i] * scale.inverse));
}

// The element of largest magnitude becomes -8, whatever its sign: the range -8..7 has one more
// place on that side. An element as large on the other side is cut to 7.
void EncodeQ4_0(const float* __restrict x, uint8_t* __restrict b) {
  const int32_t largest = LargestMagnitudeBits<kBlock>(x);
  const float peak = *std::find_if(
      x, x + kBlock, [largest](float value) { return MagnitudeBits(value) == largest; });
  const Scale scale = ScaleOf(peak / -8);
  uint8_t q[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    q[i] = static_cast<uint8_t>(std::min(15, static_cast<int>(x[i] * scale.inverse + 8.5f)));
  }
  PutU16(scale.stored, b);
  for (int i = 0; i < 16; ++i) b[2 + i] = static_cast<uint8_t>(q[i] | q[16 + i] << 4);
}

// A word of fifth bits and the nibbles of x * inverse + offset, rounded down.
void PutFiveBits(const float* x, float offset, float inverse, uint8_t* bytes) {
  uint32_t fifth = 0;
  uint8_t q[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    q[i] = static_cast<uint8_t>(std::min(31, static_cast<int>(x[i] * inverse + offset)));
    fifth |= static_cast<uint32_t>(q[i] >> 4) << i;
  }
  PutU16(static_cast<uint16_t>(fifth & 0xffff), bytes);
  PutU16(static_cast<uint16_t>(fifth >> 16), bytes + 2);
  for (int i = 0; i < 16; ++i) {
    bytes[4 + i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] & 15) << 4);
  }
}

// The element of largest magnitude becomes -16.
void EncodeQ5_0(const float* __restrict x, uint8_t* __restrict b) {
  const int32_t largest = LargestMagnitudeBits<kBlock>(x);
  const float peak = *std::find_if(
      x, x + kBlock, [largest](float value) { return MagnitudeBits(value) == largest; });
  const Scale scale = ScaleOf(peak / -16);
  PutU16(scale.stored, b);
  PutFiveBits(x, 16.5f, scale.inverse, b + 2);
}

// The range of the block, evenly: the lowest becomes 0, the highest 15 or 31.
struct Range {
  float low;
  Scale scale;
};

// A scale that is no normal half is read back as up to twice what it was, and that a range away
// from the minimum: there the block is in units of what is read back.
Range RangeOf(const float* x, int highest) {
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  Scale scale = ScaleOf((*high - *low) / static_cast<float>(highest));
  constexpr uint16_t kSmallestNormal = 0x0400;
  if (scale.stored != 0 && scale.stored < kSmallestNormal) {
    scale.inverse = 1 / HalfToFloat(scale.stored);
  }
  return {*low, scale};
}

// A minimum that is too small for a half is stored as the zero without a sign.
void PutMinimum(float low, uint8_t* bytes) {
  const uint16_t half = FloatToHalf(low);
  PutU16((half & 0x7fff) == 0 ? 0 : half, bytes);
}

void EncodeQ4_1(const float* __restrict x, uint8_t* __restrict b) {
  const Range range = RangeOf(x, 15);
  PutU16(range.scale.stored, b);
  PutMinimum(range.low, b + 2);
  const auto quant = [&](int i) {
    return std::min(15, static_cast<int>((x[i] - range.low) * range.scale.inverse + 0.5f));
  };
  for (int i = 0; i < 16; ++i) b[4 + i] = static_cast<uint8_t>(quant(i) | quant(16 + i) << 4);
}

void EncodeQ5_1(const float* __restrict x, uint8_t* __restrict b) {
  const Range range = RangeOf(x, 31);
  PutU16(range.scale.stored, b);
  PutMinimum(range.low, b + 2);
  float above[kBlock];
  for (int i = 0; i < kBlock; ++i) above[i] = x[i] - range.low;
  PutFiveBits(above, 0.5f, range.scale.inverse, b + 4);
}

template <void (*Encode)(const float*, uint8_t*), size_t kElements, size_t kBytes>
void EachBlock(const float* __restrict x, size_t elements, uint8_t* __restrict blocks) {
  for (size_t i = 0; i < elements / kElements; ++i) Encode(x + i * kElements, blocks + i * kBytes);
}

void CopyFloats(const float* x, size_t elements, uint8_t* bytes) {
  if (elements > 0) std::memcpy(bytes, x, elements * sizeof(float));
}

// What a type can hold. The limits of the 16-bit floats are the last that round to a finite number,
// those of the block types the last whose scale is a finite half.
struct Encoder {
  TensorType type;
  float largest;
  bool keeps_specials;  // infinity and NaN stay themselves; in a block they would spoil the others
  void (*encode)(const float* x, size_t elements, uint8_t* blocks);
};

constexpr float kLargestF32 = 0x1.fffffep127f;
constexpr float kLargestF16 = 0x1.ffdffep15f;
constexpr float kLargestBF16 = 0x1.fefffep127f;

constexpr std::array kEncoders = std::to_array<Encoder>({
    {TensorType::kF32, kLargestF32, true, CopyFloats},
    {TensorType::kF16, kLargestF16, true, EachBlock<EncodeF16, 1, 2>},
    {TensorType::kBF16, kLargestBF16, true, EachBlock<EncodeBF16, 1, 2>},
    {TensorType::kQ8_0, 127 * kLargestHalf, false, EachBlock<EncodeQ8_0, 32, 34>},
    {TensorType::kQ4_0, 8 * kLargestHalf, false, EachBlock<EncodeQ4_0, 32, 18>},
    {TensorType::kQ4_1, kLargestHalf, false, EachBlock<EncodeQ4_1, 32, 20>},
    {TensorType::kQ5_0, 16 * kLargestHalf, false, EachBlock<EncodeQ5_0, 32, 22>},
    {TensorType::kQ5_1, kLargestHalf, false, EachBlock<EncodeQ5_1, 32, 24>},
    {TensorType::kIQ4_NL, kLargestIQ4_NL, false, EachBlock<QuantizeIQ4_NL, 32, 18>},
    {TensorType::kIQ4_XS, kLargestIQ4_XS, false, EachBlock<QuantizeIQ4_XS, 256, 136>},
    {TensorType::kQ5_K, kLargestQ4_K, false, EachBlock<QuantizeQ5_K, 256, 176>},
    {TensorType::kQ4_K, kLargestQ4_K, false, EachBlock<QuantizeQ4_K, 256, 144>},
    {TensorType::kQ6_K, kLargestQ6_K, false, EachBlock<QuantizeQ6_K, 256, 210>},
});

absl::Status CheckElement(const Encoder& encoder, size_t index, float value) {
  const int32_t magnitude = MagnitudeBits(value);
  if (magnitude <= MagnitudeBits(encoder.largest)) return absl::OkStatus();
  if (magnitude <= MagnitudeBits(kLargestF32)) {
    return InvalidArgument("element ", index, " is ", value, ", ", Name(encoder.type),
                           " holds magnitudes up to ", encoder.largest,
                           "; keep this tensor in BF16 or F32");
  }
  if (encoder.keeps_specials) return absl::OkStatus();
  return InvalidArgument("element ", index, " is ", value, ", which ", Name(encoder.type),
                         " cannot hold; keep this tensor in F16, BF16 or F32");
}

absl::Status CheckRange(const Encoder& encoder, std::span<const float> values) {
  constexpr size_t kStride = 64;  // looked at one by one only when the largest does not fit
  for (size_t at = 0; at < values.size(); at += kStride) {
    const std::span<const float> some = values.subspan(at, std::min(kStride, values.size() - at));
    if (some.size() == kStride &&
        LargestMagnitudeBits<kStride>(some.data()) <= MagnitudeBits(encoder.largest)) {
      continue;
    }
    for (size_t i = 0; i < some.size(); ++i) {
      OUTRIDER_RETURN_IF_ERROR(CheckElement(encoder, at + i, some[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool CanQuantize(TensorType type) {
  return std::ranges::find(kEncoders, type, &Encoder::type) != kEncoders.end();
}

absl::Status Quantize(TensorType type, std::span<const float> values, std::span<std::byte> out) {
  const auto* const encoder = std::ranges::find(kEncoders, type, &Encoder::type);
  if (encoder == kEncoders.end()) {
    return Unimplemented(
        "cannot make ", Name(type),
        " of floats; choose one of F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K "
        "IQ4_NL IQ4_XS");
  }
  OUTRIDER_CHECK(out.size() == RowBytes(type, values.size()), "floats and blocks are as many");
  OUTRIDER_RETURN_IF_ERROR(CheckRange(*encoder, values));
  encoder->encode(values.data(), values.size(), reinterpret_cast<uint8_t*>(out.data()));
  return absl::OkStatus();
}

}  // namespace outrider
