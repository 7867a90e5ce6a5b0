// Products on the GPU: the bytes that are made here, thread after thread; with weights in F16 and BF16,
// which have bits of the GPU's own, near those, and the same whichever kernel runs.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bench/cuda_check/same_on_both.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/cuda/testing/rows_on_gpu.h"

namespace outrider {
namespace {

// Rows that have been made here, there.
gpu::GpuRows PutRows(Try& t, const PanelType& type, const ActivationRows& x) {
  const gpu::RowsOnGpu here(x, type.block());
  gpu::GpuRows there = here.View();
  if (type.block() == 1) {
    there.values = t.Put(there.values, x.row_count * x.value_stride);
  } else {
    there.quants = t.Put(there.quants, here.quant_bytes());
    there.scales = t.Put(there.scales, here.scale_bytes() / sizeof(float));
    there.sums = t.Put(there.sums, here.sum_bytes() / sizeof(int16_t));
  }
  return there;
}
TEST(KernelsOnGpu, Products) {
  constexpr uint32_t kInputs = 2560, kOutputs = 75;
  for (const Kind& kind : kKinds) {
    if (gpu::HasOwnBits(kind.kind)) continue;
    const PanelType& type = TypeNamed(kind.name);
    const size_t panel_bytes = type.Size(kInputs);
    for (const uint32_t row_count : {1u, 7u, 16u, 17u, 64u, 65u}) {
      for (const Rows rows : {Rows::kRandom, Rows::kHighest, Rows::kTiny, Rows::kNotFinite}) {
        Bytes panels = MakePanels(type, 5, kInputs, Weights::kRandom, 5);
        RowsOf made(row_count, kInputs, type.block(), rows, 7);
        const std::vector<float> bias = Outlying(kOutputs, 3);
        const auto multiply = [&](Try& t) {
          float* const out = t.Room(size_t{row_count} * kOutputs);
          t.queue().Multiply({.panels = t.Put(panels.data(), panels.size()),
                              .panel_bytes = panel_bytes,
                              .outputs = kOutputs,
                              .inputs = kInputs,
                              .bias = t.Put(bias),
                              .x = PutRows(t, type, made.First(row_count)),
                              .out = out,
                              .out_stride = kOutputs},
                             kind.kind);
          t.Keep(out, size_t{row_count} * kOutputs);
        };
        ExpectSame(multiply, std::string(kind.name) + ", " + std::to_string(row_count) + " rows");
      }
    }
  }
}

// Weights in F16 or BF16 and rows of floats, on a device and off it.
class FloatTiles : public testing::TestWithParam<Kind> {
 protected:
  static constexpr uint32_t kInputs = 2560, kRows = 512;

  static size_t PanelBytes() { return TypeNamed(GetParam().name).Size(kInputs); }

  std::vector<float> Multiply(DeviceQueue& queue, uint32_t row_count, bool by_expert = false) {
    Try t(queue);
    gpu::GpuRows x = {.row_count = row_count, .inputs = kInputs};
    x.values = t.Put(x_.data(), size_t{row_count} * kInputs);
    x.value_stride = kInputs;
    const gpu::SplitRows split = {
        x.values, reinterpret_cast<uint32_t*>(t.Room(size_t{row_count} * kInputs)), kInputs};
    queue.Run(split, row_count, split.grid_y());
    x.terms = split.terms;
    const std::vector<uint32_t> counters(gpu::kSharedBlocks);
    std::vector<float> y(size_t{row_count} * outputs_);
    float* const out = t.Room(y.size());
    const gpu::Product product = {
        .panels = t.Put(panels_.data(), panels_.size()),
        .panel_bytes = PanelBytes(),
        .outputs = outputs_,
        .inputs = kInputs,
        .bias = nullptr,
        .x = x,
        .out = out,
        .out_stride = outputs_,
        .room = {t.Room(gpu::RoomFor(row_count, outputs_)), t.Put(counters)}};
    if (by_expert) {
      const std::vector<gpu::ExpertRows> groups = {{0, 0, row_count}};
      queue.Multiply(gpu::GroupedProduct{product, t.Put(groups), 1}, GetParam().kind);
    } else {
      queue.Multiply(product, GetParam().kind);
    }
    t.Keep(out, y.size());
    std::memcpy(y.data(), t.kept().data(), y.size() * sizeof(float));
    return y;
  }

  float Weight(uint32_t n, uint32_t k) {
    return gpu::ElementOf(GetParam().kind, panels_.data() + n / 16 * PanelBytes(), kInputs, n % 16,
                          k);
  }

  void TakeOutputs(uint32_t outputs) {
    outputs_ = outputs;
    panels_ =
        MakePanels(TypeNamed(GetParam().name), (outputs + 15) / 16, kInputs, Weights::kRandom, 5);
  }

  uint32_t outputs_ = 75;
  Bytes panels_ = MakePanels(TypeNamed(GetParam().name), 5, kInputs, Weights::kRandom, 5);
  std::vector<float> x_ = Outlying(size_t{kRows} * kInputs, 7);
  const std::unique_ptr<DeviceQueue> queue_ = OrDie(OpenQueue());
};

INSTANTIATE_TEST_SUITE_P(KernelsOnGpu, FloatTiles,
                         testing::Values(Kind{"F16", gpu::PanelKind::kF16},
                                         Kind{"BF16", gpu::PanelKind::kBf16}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// By the kernels for few outputs, and for many.
TEST_P(FloatTiles, ARowIsTheSameInAnyCompany) {
  for (const uint32_t outputs : {75u, 2075u}) {
    TakeOutputs(outputs);
    const std::vector<float> all = Multiply(*queue_, kRows);
    for (const uint32_t row_count : {1u, 7u, 8u, 9u, 16u, 17u, 32u, 33u, 64u, 65u, 256u, 511u}) {
      const std::vector<float> first = Multiply(*queue_, row_count);
      EXPECT_EQ(std::memcmp(first.data(), all.data(), first.size() * sizeof(float)), 0)
          << row_count << ", " << outputs << " outputs";
    }
    for (const uint32_t row_count : {1u, 8u, 9u, 32u, 33u, 65u, 257u}) {
      const std::vector<float> first = Multiply(*queue_, row_count, true);
      EXPECT_EQ(std::memcmp(first.data(), all.data(), first.size() * sizeof(float)), 0)
          << row_count << " of an expert, " << outputs << " outputs";
    }
  }
}

TEST_P(FloatTiles, ARowIsTheSameInAnyPlaceOfATile) {
  for (uint32_t row = 1; row < kRows; ++row) {
    std::memcpy(x_.data() + size_t{row} * kInputs, x_.data(), kInputs * sizeof(float));
  }
  for (const uint32_t row_count : {8u, 64u, kRows}) {
    const std::vector<float> y = Multiply(*queue_, row_count);
    for (uint32_t row = 1; row < row_count; ++row) {
      ASSERT_EQ(std::memcmp(y.data() + row * outputs_, y.data(), outputs_ * sizeof(float)), 0)
          << row << " of " << row_count;
    }
  }
}

// One input, times one: the second of a float's two terms is rounded.
TEST_P(FloatTiles, AFloatIsMultipliedToSixteenBits) {
  const uint16_t one = GetParam().kind == gpu::PanelKind::kF16 ? 0x3c00 : 0x3f80;
  std::memset(panels_.data(), 0, panels_.size());
  for (uint32_t k : {0u, 1030u})
    std::memcpy(panels_.data() + 2 * (16 * size_t{k} + k % 16), &one, 2);
  Seeded seeded(3);
  for (float& x : x_) x = std::ldexp(seeded.Unit(), static_cast<int>(seeded.Below(190)) - 70);
  const std::vector<float> y = Multiply(*queue_, kRows);
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t k : {0u, 1030u}) {
      const float x = x_[size_t{row} * kInputs + k];
      const double off = std::abs(double{y[row * outputs_ + k % 16]} - x);
      ASSERT_TRUE(off <= 0x1p-16 * std::abs(x)) << row;
    }
  }
}

// Sixteen products and a sum are added up in some order by one instruction. Each of the seventeen
// is taken to be cut off at 2^-23 of the largest or further down; so one instruction is off by 17 *
// 2^-23 of all magnitudes of the result at the most, where the emulation's rounding is by 16 *
// 2^-24. There are 20 instructions in a segment, or 40; sums of four segments, and of four
// quarters, are rounded by either.
TEST_P(FloatTiles, AreAsNearToTheModelAsTheseSumsAllow) {
  const double instructions = GetParam().kind == gpu::PanelKind::kF16 ? 40 : 20;
  const double tolerance = instructions * (17 * 0x1p-23 + 16 * 0x1p-24) + 2 * 8 * 0x1p-24;
  EmulatedQueue emulated;
  for (const uint32_t row_count : {9u, 40u, 300u}) {
    const std::vector<float> y = Multiply(*queue_, row_count);
    const std::vector<float> model = Multiply(emulated, row_count);
    for (uint32_t row = 0; row < row_count; ++row) {
      for (uint32_t n = 0; n < outputs_; ++n) {
        double magnitude = 0;
        for (uint32_t k = 0; k < kInputs; ++k) {
          magnitude += std::abs(double{Weight(n, k)} * x_[size_t{row} * kInputs + k]);
        }
        const size_t at = size_t{row} * outputs_ + n;
        ASSERT_TRUE(std::abs(double{y[at]} - model[at]) <= tolerance * magnitude)
            << "row " << row << " of " << row_count << ", output " << n << ": " << y[at] << " for "
            << model[at];
      }
    }
  }
}

// Their terms may be subnormal, and count or count for nothing.
TEST_P(FloatTiles, TinyFloatsAreOffByNoMoreThanSubnormalTerms) {
  for (float& x : x_) x *= 0x1p-140f;
  EmulatedQueue emulated;
  const std::vector<float> y = Multiply(*queue_, 9), model = Multiply(emulated, 9);
  for (uint32_t row = 0; row < 9; ++row) {
    for (uint32_t n = 0; n < outputs_; ++n) {
      double magnitude = 0;
      for (uint32_t k = 0; k < kInputs; ++k) magnitude += std::abs(double{Weight(n, k)});
      const size_t at = size_t{row} * outputs_ + n;
      ASSERT_TRUE(std::abs(double{y[at]} - model[at]) <= 2 * 0x1p-125 * (magnitude + kInputs));
    }
  }
}

TEST_P(FloatTiles, WhatIsNotFiniteIsNotHidden) {
  x_[kInputs + 20] = std::numeric_limits<float>::quiet_NaN();
  x_[2 * kInputs + 2559] = std::numeric_limits<float>::infinity();
  for (const uint32_t row_count : {4u, 20u, 300u}) {
    const std::vector<float> y = Multiply(*queue_, row_count);
    for (uint32_t row = 0; row < row_count; ++row) {
      for (uint32_t n = 0; n < outputs_; ++n) {
        ASSERT_EQ(std::isnan(y[row * outputs_ + n]), row == 1 || row == 2) << row << ", " << n;
      }
    }
  }
}

// Of three experts few rows each, and many.
TEST(KernelsOnGpu, ProductsOfExperts) {
  constexpr uint32_t kInputs = 2560, kOutputs = 75, kPanels = 5;
  for (const Kind& kind : kKinds) {
    if (gpu::HasOwnBits(kind.kind)) continue;
    const PanelType& type = TypeNamed(kind.name);
    for (const uint32_t many : {9u, 130u}) {
      const std::vector<gpu::ExpertRows> groups = {{2, 1, many}, {0, 0, 1}, {1, 1, 0}};
      const uint32_t place_count = 1 + many;
      ExpectSame(
          [&](Try& t) {
            Bytes panels = MakePanels(type, 3 * kPanels, kInputs, Weights::kRandom, 5);
            RowsOf made(place_count, kInputs, type.block(), Rows::kRandom, 7);
            float* const out = t.Room(size_t{place_count} * kOutputs);
            t.queue().Multiply(
                gpu::GroupedProduct{.product = {.panels = t.Put(panels.data(), panels.size()),
                                                .panel_bytes = type.Size(kInputs),
                                                .outputs = kOutputs,
                                                .inputs = kInputs,
                                                .bias = t.Put(Outlying(3 * kOutputs, 3)),
                                                .x = PutRows(t, type, made.First(place_count)),
                                                .out = out,
                                                .out_stride = kOutputs},
                                    .groups = t.Put(groups),
                                    .group_count = 3},
                kind.kind);
            t.Keep(out, size_t{place_count} * kOutputs);
          },
          std::string(kind.name) + ", " + std::to_string(many) + " rows of an expert");
    }
  }
}

}  // namespace
}  // namespace outrider
