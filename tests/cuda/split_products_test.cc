// Products with weights in F16 and BF16 as tensor cores compute them, thread after thread: to the
// bit what the segments come to in plain loops, by the same model of a tile; the same bits
// whichever kernel runs and however many rows there are; and as near to what is right as rounding
// allows.
#include "common/cuda/kernels/split_products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/formats/tensors/half.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"

namespace outrider::gpu {
namespace {

constexpr uint32_t kTile = 16, kSegmentCount = 16;

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Weights of some outputs and rows of floats, and room for what they come to.
class Case {
 public:
  Case(PanelKind kind, uint32_t outputs, uint32_t inputs, uint32_t rows)
      : kind_(kind),
        outputs_(outputs),
        inputs_(inputs),
        rows_(rows),
        panels_((outputs + 15) / 16 * PanelBytesHere()),
        x_(size_t{rows} * inputs),
        terms_(x_.size()),
        sums_(kRoomTiles * kQuarters * 64 * 128, std::numeric_limits<float>::quiet_NaN()),
        counters_(kRoomTiles) {
    std::memset(panels_.data(), 0, panels_.size());
  }

  uint32_t outputs() const { return outputs_; }
  uint32_t inputs() const { return inputs_; }
  uint32_t rows() const { return rows_; }

  void SetWeight(uint32_t n, uint32_t k, uint16_t bits) {
    std::memcpy(panels_.data() + OffsetOf(n, k), &bits, sizeof(bits));
  }
  float Weight(uint32_t n, uint32_t k) {
    uint16_t bits;
    std::memcpy(&bits, panels_.data() + OffsetOf(n, k), sizeof(bits));
    return kind_ == PanelKind::kF16 ? HalfToFloat(bits)
                                    : std::bit_cast<float>(uint32_t{bits} << 16);
  }
  float& X(uint32_t row, uint32_t k) { return x_[size_t{row} * inputs_ + k]; }

  // Any weights of ordinary size; rows with an outlier in every 37 numbers.
  void FillOrdinary(uint64_t seed) {
    Seeded seeded(seed);
    ForEachWeight([&](uint32_t n, uint32_t k) {
      const uint32_t bits = std::bit_cast<uint32_t>(seeded.Unit());
      SetWeight(
          n, k,
          kind_ == PanelKind::kF16 ? OrdinaryHalf(seeded) : static_cast<uint16_t>(bits >> 16));
    });
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = seeded.Unit() * (i % 37 == 5 ? 3000.0f : 1.0f);
  }
  // Any bits at all, of weights now and then and of one row in three: infinities and NaN among
  // them.
  void FillWild(uint64_t seed) {
    FillOrdinary(seed);
    Seeded seeded(seed + 1);
    ForEachWeight([&](uint32_t n, uint32_t k) {
      if (seeded.Below(400) == 0) SetWeight(n, k, static_cast<uint16_t>(seeded.Next()));
    });
    for (uint32_t row = 0; row < rows_; row += 3) {
      for (uint32_t k = 0; k < inputs_; ++k) {
        if (seeded.Below(20) == 0)
          X(row, k) = std::bit_cast<float>(static_cast<uint32_t>(seeded.Next()));
      }
    }
  }
  // Products that are subnormal, and floats of which not all is in three bfloat16s.
  void FillTiny(uint64_t seed) {
    FillOrdinary(seed);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] *= i % 2 == 0 ? 0x1p-120f : 0x1p-136f;
  }

  // With its rows' terms, and room for quarters.
  Product ProductOf(uint32_t row_count, float* out) {
    const SplitRows split = {x_.data(), terms_.data(), inputs_};
    Emulate(split, rows_, split.grid_y());
    GpuRows x = {.row_count = row_count, .inputs = inputs_};
    x.values = x_.data();
    x.value_stride = inputs_;
    x.terms = terms_.data();
    return {.panels = panels_.data(),
            .panel_bytes = PanelBytesHere(),
            .outputs = outputs_,
            .inputs = inputs_,
            .bias = nullptr,
            .x = x,
            .out = out,
            .out_stride = outputs_,
            .room = {sums_.data(), counters_.data()}};
  }

  template <typename Body>
  std::vector<float> Run() {
    const ScopedIeeeMode ieee;
    std::vector<float> out(size_t{rows_} * outputs_, -1.0f);
    UseBody<Body>(ProductOf(rows_, out.data()),
                  [](const auto& body, uint32_t x, uint32_t y) { Emulate(body, x, y); });
    return out;
  }
  // Of the first rows, by the kernel that is chosen for so many.
  std::vector<float> RunChosen(uint32_t row_count) {
    const ScopedIeeeMode ieee;
    std::vector<float> out(size_t{row_count} * outputs_, -1.0f);
    UseProduct(ProductOf(row_count, out.data()), kind_,
               [](const auto& body, uint32_t x, uint32_t y) { Emulate(body, x, y); });
    return out;
  }

  // The definition, in plain loops.
  float Reference(uint32_t row, uint32_t n) {
    const uint32_t tile_count = (inputs_ + kTile - 1) / kTile;
    const uint32_t length = (tile_count + kSegmentCount - 1) / kSegmentCount * kTile;
    float result = 0;
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      float sum = 0;
      for (uint32_t i = 0; i < 4; ++i) sum += Segment(row, n, (4 * quarter + i) * length, length);
      result += sum;
    }
    return result;
  }

 private:
  float Segment(uint32_t row, uint32_t n, uint32_t first, uint32_t length) {
    float sum = 0;
    for (uint32_t tile = first; tile < first + length; tile += kTile) {
      for (int wt = kind_ == PanelKind::kF16 ? 1 : 0; wt >= 0; --wt) {
        for (int xt = 1; xt >= 0; --xt) {
          for (uint32_t i = 0; i < kTile; ++i) {
            // Inputs of the tile go 0 1, 4 5, 8 9, 12 13, 2 3, 6 7, 10 11, 14 15.
            const uint32_t k = tile + i % 8 / 2 * 4 + i / 8 * 2 + i % 2;
            const float w = k < inputs_ ? TermOf(Weight(n, k), wt) : 0;
            const float x = k < inputs_ ? TermOf(X(row, k), xt) : 0;
            sum += w * x;
          }
        }
      }
    }
    return sum;
  }

  // The first bfloat16 of a float, or the second.
  static float TermOf(float value, int term) {
    const float first = std::bit_cast<float>(std::bit_cast<uint32_t>(value) >> 16 << 16);
    return term == 0 ? first : Nearest(value - first);
  }
  // By what is nearer, its neighbour below or above; of two that are as near, the one whose last
  // bit is zero.
  static float Nearest(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const float below = std::bit_cast<float>(bits & 0xffff0000u);
    const float above = std::bit_cast<float>((bits & 0xffff0000u) + 0x10000u);
    const float over = std::abs(value - below), under = std::abs(above - value);
    if (!(over >= under)) return below;
    return over > under || (bits & 0x10000u) != 0 ? above : below;
  }

  size_t PanelBytesHere() const { return size_t{32} * inputs_; }
  size_t OffsetOf(uint32_t n, uint32_t k) const {
    return n / 16 * PanelBytesHere() + 2 * (size_t{k} * 16 + n % 16);
  }
  template <typename Use>
  void ForEachWeight(const Use& use) {
    for (uint32_t n = 0; n < outputs_; ++n) {
      for (uint32_t k = 0; k < inputs_; ++k) use(n, k);
    }
  }

  const PanelKind kind_;
  const uint32_t outputs_, inputs_, rows_;
  // Of the largest grid here whose blocks share out quarters.
  static constexpr size_t kRoomTiles = 9;

  Bytes panels_;
  std::vector<float> x_;
  std::vector<uint32_t> terms_;
  std::vector<float> sums_;
  std::vector<uint32_t> counters_;
};

template <typename Weights>
constexpr PanelKind kKindOf = Weights::kTerms == 1 ? PanelKind::kBf16 : PanelKind::kF16;

template <typename Weights>
class SplitProducts : public testing::Test {
 protected:
  static void ExpectReferenceBits(Case& tried, const std::vector<float>& actual) {
    const ScopedIeeeMode ieee;
    for (uint32_t row = 0; row < tried.rows(); ++row) {
      for (uint32_t n = 0; n < tried.outputs(); ++n) {
        const float expected = tried.Reference(row, n), y = actual[row * tried.outputs() + n];
        ASSERT_TRUE(SameBits(y, expected))
            << tried.inputs() << " inputs, " << tried.rows() << " rows, row " << row << ", output "
            << n << ": " << y << " for " << expected;
      }
    }
  }
  static void ExpectReferenceBits(Case& tried) {
    ExpectReferenceBits(tried, tried.Run<FewRowsSplit<Weights, 1, 1>>());
    ExpectReferenceBits(tried, tried.Run<FewRowsSplit<Weights, 2, 1>>());
    ExpectReferenceBits(tried, tried.Run<FewRowsSplit<Weights, 1, 2>>());
    ExpectReferenceBits(tried, tried.Run<FewRowsSplit<Weights, 2, 2>>());
    ExpectReferenceBits(tried, tried.Run<SomeRowsSplit<Weights, 1>>());
    ExpectReferenceBits(tried, tried.Run<SomeRowsSplit<Weights, kQuarters>>());
  }
};

using SplitWeights = testing::Types<Bf16Weights, F16Weights>;
class NameOfWeights {
 public:
  template <typename Weights>
  static std::string GetName(int) {
    return Weights::kTerms == 1 ? "BF16" : "F16";
  }
};
TYPED_TEST_SUITE(SplitProducts, SplitWeights, NameOfWeights);

TYPED_TEST(SplitProducts, AreTheirSegmentsForAnyNumberOfRows) {
  for (const uint32_t rows : {1u, 7u, 8u, 9u, 16u, 17u, 64u, 65u}) {
    Case tried(kKindOf<TypeParam>, 27, 300, rows);
    tried.FillOrdinary(rows);
    this->ExpectReferenceBits(tried);
  }
}

// Less than a tile, one segment or some, whole tiles and part of one, several tiles a segment and
// none in the last.
TYPED_TEST(SplitProducts, AreTheirSegmentsForAnyNumberOfInputs) {
  for (const uint32_t inputs : {4u, 16u, 36u, 256u, 4180u}) {
    Case tried(kKindOf<TypeParam>, 27, inputs, 9);
    tried.FillOrdinary(inputs);
    this->ExpectReferenceBits(tried);
  }
}

// The panels of the largest block, and of one more.
TYPED_TEST(SplitProducts, AreTheirSegmentsForAnyNumberOfOutputs) {
  for (const uint32_t outputs : {1u, 16u, 64u, 131u}) {
    Case tried(kKindOf<TypeParam>, outputs, 260, 34);
    tried.FillOrdinary(outputs);
    this->ExpectReferenceBits(tried);
  }
}

TYPED_TEST(SplitProducts, TinyAndInfiniteAndNotNumbersGoTheSameWay) {
  Case tiny(kKindOf<TypeParam>, 27, 300, 9);
  tiny.FillTiny(1);
  this->ExpectReferenceBits(tiny);
  Case wild(kKindOf<TypeParam>, 27, 300, 35);
  wild.FillWild(2);
  this->ExpectReferenceBits(wild);
}

// Each row by itself, and among as many as any choice of a kernel begins or ends with.
TYPED_TEST(SplitProducts, ARowIsTheSameInAnyCompany) {
  Case tried(kKindOf<TypeParam>, 19, 516, 129);
  tried.FillOrdinary(5);
  const std::vector<float> all = tried.RunChosen(tried.rows());
  for (const uint32_t rows : {1u, 8u, 9u, 64u, 65u}) {
    const std::vector<float> first = tried.RunChosen(rows);
    EXPECT_EQ(std::memcmp(first.data(), all.data(), first.size() * sizeof(float)), 0) << rows;
  }
}

// One input, times one. Terms have eight bits of a mantissa each: one that has no more than sixteen
// is there to the last, whatever the float's size, and of others the rest is rounded.
TYPED_TEST(SplitProducts, AFloatIsMultipliedToSixteenBits) {
  constexpr uint32_t kInputs = 272, kRows = 40;
  Case tried(kKindOf<TypeParam>, 1, kInputs, kRows);
  tried.SetWeight(0, 260, kKindOf<TypeParam> == PanelKind::kF16 ? 0x3c00 : 0x3f80);
  Seeded seeded(7);
  std::vector<float> values = {
      0x1.fffe7fp+127f, -0x1.fffffep-110f, 0x1.000002p+0f, -0x1.00ffffp+20f, 0.0f, 65520.0f};
  while (values.size() < kRows) {
    values.push_back(std::ldexp(seeded.Unit(), static_cast<int>(seeded.Below(200)) - 80));
  }
  const auto multiply = [&] {
    for (uint32_t row = 0; row < kRows; ++row) tried.X(row, 260) = values[row];
    return tried.template Run<FewRowsSplit<TypeParam, 1, 1>>();
  };
  const std::vector<float> y = multiply();
  for (uint32_t row = 0; row < kRows; ++row) {
    EXPECT_TRUE(std::abs(double{y[row]} - values[row]) <= 0x1p-16 * std::abs(values[row])) << row;
  }
  for (float& value : values) {
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffffff00u);
  }
  EXPECT_EQ(multiply(), values);
  // What bfloat16s have no room for is rounded too.
  for (float& value : values) {
    value = std::ldexp(seeded.Unit(), -117 - static_cast<int>(seeded.Below(30)));
  }
  const std::vector<float> tiny = multiply();
  for (uint32_t row = 0; row < kRows; ++row) {
    EXPECT_TRUE(std::abs(double{tiny[row]} - values[row]) <= 0x1p-133) << row;
  }
}

// A weight is multiplied whole: all those that are finite, times a number of 13 bits, which leaves
// a product of no more than 24.
TYPED_TEST(SplitProducts, AWeightIsMultipliedWhole) {
  constexpr uint32_t kOutputs = 4096;
  for (uint32_t first = 0; first < 65536; first += kOutputs) {
    Case tried(kKindOf<TypeParam>, kOutputs, 4, 1);
    for (uint32_t n = 0; n < kOutputs; ++n) tried.SetWeight(n, 1, static_cast<uint16_t>(first + n));
    const float x = 0x1.ffbp-1f;
    tried.X(0, 1) = x;
    const std::vector<float> y = tried.template Run<FewRowsSplit<TypeParam, 2, 1>>();
    for (uint32_t n = 0; n < kOutputs; ++n) {
      const float weight = tried.Weight(n, 1);
      if (!std::isfinite(weight) || (weight != 0 && std::abs(weight) < 0x1p-100f)) continue;
      ASSERT_EQ(y[n], weight * x) << weight;
    }
  }
}

// Of a float, 2^-16 may be missing. Each of a segment's additions, 16 in each of its tiles'
// products, and each of segments and quarters, may be off by half a unit in the last place of what
// has been added up by then, which is no more than all magnitudes together.
TYPED_TEST(SplitProducts, AreAsNearAsTermsAndRoundingAllow) {
  for (const uint32_t inputs : {256u, 4096u}) {
    Case tried(kKindOf<TypeParam>, 33, inputs, 9);
    tried.FillOrdinary(inputs + 1);
    const std::vector<float> y = tried.template Run<SomeRowsSplit<TypeParam, 1>>();
    const double additions = inputs / kSegmentCount * kRowTerms * TypeParam::kTerms + 4 + 4;
    for (uint32_t row = 0; row < tried.rows(); ++row) {
      for (uint32_t n = 0; n < tried.outputs(); ++n) {
        double right = 0, magnitude = 0;
        for (uint32_t k = 0; k < inputs; ++k) {
          const double product = double{tried.Weight(n, k)} * tried.X(row, k);
          right += product;
          magnitude += std::abs(product);
        }
        const double error = std::abs(y[row * tried.outputs() + n] - right);
        // To the first order; the second is smaller by a factor of 2^-24 for each addition.
        ASSERT_TRUE(error <= 1.001 * (0x1p-16 + additions * 0x1p-24) * magnitude)
            << "row " << row << ", output " << n << ": off by " << error / magnitude;
      }
    }
  }
}

TYPED_TEST(SplitProducts, WhatIsNotFiniteIsNotHidden) {
  Case tried(kKindOf<TypeParam>, 18, 64, 4);
  tried.FillOrdinary(3);
  tried.X(1, 20) = std::numeric_limits<float>::quiet_NaN();
  tried.X(2, 63) = std::numeric_limits<float>::infinity();
  tried.X(3, 40) = std::bit_cast<float>(0x7f800001u);  // a NaN by its last bit alone
  for (const std::vector<float>& y : {tried.template Run<FewRowsSplit<TypeParam, 2, 1>>(),
                                      tried.template Run<SomeRowsSplit<TypeParam, 1>>()}) {
    for (uint32_t n = 0; n < 18; ++n) {
      EXPECT_TRUE(std::isfinite(y[n]));
      for (uint32_t row = 1; row < 4; ++row) EXPECT_TRUE(std::isnan(y[row * 18 + n])) << row;
    }
  }
}

TYPED_TEST(SplitProducts, ABiasIsAddedAfterwards) {
  Case tried(kKindOf<TypeParam>, 5, 64, 3);
  tried.FillOrdinary(2);
  const std::vector<float> bias = {0.5f, -3.0f, 1e6f, 0.0f, 7.0f};
  std::vector<float> out(15, -1.0f);
  Product product = tried.ProductOf(3, out.data());
  product.bias = bias.data();
  std::vector<float> expected = tried.RunChosen(3);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 5];
  const auto emulate = [](const auto& body, uint32_t x, uint32_t y) { Emulate(body, x, y); };
  UseBody<FewRowsSplit<TypeParam, 1, 1>>(product, emulate);
  EXPECT_EQ(out, expected);
  std::ranges::fill(out, -1.0f);
  UseBody<SomeRowsSplit<TypeParam, 1>>(product, emulate);
  EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace outrider::gpu
