// What Multiplier adds to kernels: quantised rows, shared work, matrices in GGUF rows. None of it
// may touch a bit.
#include "common/kernels/products/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/kernels/isa.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr uint32_t kInputs = 512;
constexpr uint32_t kRowsMax = 9;

constexpr TensorType kTypes[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K, TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4};

// Where the scales of a block stand.
std::vector<size_t> HalvesOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// Bytes of a matrix in GGUF rows, with scales of ordinary size.
std::vector<std::byte> MakeRows(TensorType type, uint32_t outputs, uint64_t seed) {
  Seeded seeded(seed);
  std::vector<std::byte> rows(outputs * RowBytes(type, kInputs));
  const auto put_half = [&](size_t at) {
    const uint16_t half = OrdinaryHalf(seeded);
    std::memcpy(rows.data() + at, &half, sizeof(half));
  };
  for (std::byte& byte : rows) byte = static_cast<std::byte>(seeded.Next());
  const size_t block = Info(type).block_bytes;
  for (size_t at = 0; at < rows.size(); at += block) {
    if (type == TensorType::kF32) {
      const float value = seeded.Unit();
      std::memcpy(rows.data() + at, &value, sizeof(value));
      continue;
    }
    if (type == TensorType::kMXFP4) {
      rows[at] = static_cast<std::byte>(120 + seeded.Below(8));
      continue;
    }
    for (const size_t half : HalvesOf(type)) put_half(at + half);
  }
  return rows;
}

struct Matrix {
  Matrix(TensorType type, uint32_t outputs, uint64_t seed)
      : rows(MakeRows(type, outputs, seed)),
        packed(HasPanels(type) ? PackedBytes(type, outputs, kInputs) : 0),
        in_rows{type, WeightLayout::kRows, outputs, kInputs, rows.data()},
        in_panels{type, WeightLayout::kPanels, outputs, kInputs, packed.data()} {
    if (!HasPanels(type)) return;
    const size_t row_bytes = RowBytes(type, kInputs);
    const size_t panel_bytes = PanelBytes(type, kInputs);
    for (uint32_t p = 0; p < PanelCount(outputs); ++p) {
      const uint32_t count = std::min(kPanelOutputs, outputs - p * kPanelOutputs);
      PackPanel(type, kInputs,
                std::span(rows).subspan(p * kPanelOutputs * row_bytes, count * row_bytes),
                {packed.data() + p * panel_bytes, panel_bytes});
    }
  }

  std::vector<std::byte> rows;
  Bytes packed;
  WeightMatrix in_rows;
  WeightMatrix in_panels;
};

std::vector<float> MakeActivations(uint32_t row_count) {
  Seeded seeded(11);
  std::vector<float> x(row_count * kInputs);
  for (float& value : x) value = seeded.Unit();
  x[3] = 40.0f;  // an outlier, as real activations have
  return x;
}

class Workbench {
 public:
  explicit Workbench(uint32_t thread_count, Isa isa = BestIsa())
      : pool_(*ThreadPool::Create(thread_count)),
        multiplier_(*Multiplier::Create(KernelsFor(isa), *pool_, kRowsMax, kInputs)) {}

  std::vector<float> Multiply(const WeightMatrix& matrix, const std::vector<float>& x) {
    const auto row_count = static_cast<uint32_t>(x.size() / kInputs);
    std::vector<float> out(size_t{row_count} * matrix.outputs, NAN);
    const Product product = {&matrix, out.data(), matrix.outputs};
    Multiply(x, {&product, 1});
    return out;
  }

  void Multiply(const std::vector<float>& x, std::span<const Product> products) {
    multiplier_.Multiply({.values = x.data(),
                          .stride = kInputs,
                          .row_count = static_cast<uint32_t>(x.size() / kInputs),
                          .inputs = kInputs},
                         products);
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  Multiplier multiplier_;
};

TEST(Products, MatricesInRowsGiveTheBitsOfPackedOnes) {
  const std::vector<float> x = MakeActivations(5);
  for (const Isa isa : SupportedIsas()) {
    Workbench bench(2, isa);
    for (const TensorType type : kTypes) {
      if (!HasPanels(type)) continue;
      const Matrix matrix(type, 83, 21);
      EXPECT_EQ(bench.Multiply(matrix.in_rows, x), bench.Multiply(matrix.in_panels, x))
          << Name(type) << " on " << Name(isa);
    }
  }
}

TEST(Products, ThreadsDoNotTouchABit) {
  const std::vector<float> x = MakeActivations(kRowsMax);
  Workbench one(1);
  Workbench two(2);
  Workbench three(3);
  for (const TensorType type : kTypes) {
    const Matrix matrix(type, 300, 23);
    const WeightMatrix& view = HasPanels(type) ? matrix.in_panels : matrix.in_rows;
    const std::vector<float> expected = one.Multiply(view, x);
    EXPECT_EQ(two.Multiply(view, x), expected) << Name(type);
    EXPECT_EQ(three.Multiply(view, x), expected) << Name(type);
  }
}

TEST(Products, ARowAloneGivesTheBitsItGivesAmongOthers) {
  const std::vector<float> x = MakeActivations(kRowsMax);
  Workbench bench(2);
  for (const TensorType type : kTypes) {
    const Matrix matrix(type, 50, 24);
    const WeightMatrix& view = HasPanels(type) ? matrix.in_panels : matrix.in_rows;
    const std::vector<float> together = bench.Multiply(view, x);
    for (uint32_t r = 0; r < kRowsMax; ++r) {
      const std::vector<float> alone(x.begin() + r * kInputs, x.begin() + (r + 1) * kInputs);
      const std::vector<float> expected(together.begin() + r * 50, together.begin() + (r + 1) * 50);
      EXPECT_EQ(bench.Multiply(view, alone), expected) << Name(type) << " row " << r;
    }
  }
}

TEST(Products, SeveralMatricesOfDifferentTypesShareOneCall) {
  const std::vector<float> x = MakeActivations(4);
  Workbench bench(2);
  std::vector<Matrix> matrices;
  std::vector<std::vector<float>> outs;
  uint32_t outputs = 16;
  for (const TensorType type : kTypes) {
    matrices.emplace_back(type, outputs, 25);
    outs.emplace_back(size_t{4} * outputs);
    outputs += 19;
  }
  std::vector<Product> products;
  for (size_t i = 0; i < matrices.size(); ++i) {
    products.push_back({&matrices[i].in_rows, outs[i].data(), matrices[i].in_rows.outputs});
  }
  bench.Multiply(x, products);
  for (size_t i = 0; i < matrices.size(); ++i) {
    EXPECT_EQ(outs[i], bench.Multiply(matrices[i].in_rows, x)) << Name(kTypes[i]);
  }
}

// As experts do: the first two share rows, one has none, and row 3 goes to nobody.
TEST(Products, MatricesMayTakeRowsOfTheirOwn) {
  const std::vector<float> x = MakeActivations(kRowsMax);
  const RowRange ranges[] = {{0, 3}, {1, 2}, {4, 0}, {4, kRowsMax - 4}};
  for (const Isa isa : SupportedIsas()) {
    Workbench bench(2, isa);
    for (const TensorType type : kTypes) {
      std::vector<Matrix> matrices;
      std::vector<std::vector<float>> outs;
      for (const RowRange& range : ranges) {
        matrices.emplace_back(type, 50 + range.first, 28 + range.count);
        outs.emplace_back(size_t{kRowsMax} * matrices.back().in_rows.outputs, -1.0f);
      }
      std::vector<Product> products;
      for (size_t i = 0; i < matrices.size(); ++i) {
        const Matrix& matrix = matrices[i];
        const WeightMatrix& view = HasPanels(type) ? matrix.in_panels : matrix.in_rows;
        products.push_back({&view, outs[i].data(), view.outputs, ranges[i]});
      }
      bench.Multiply(x, products);
      for (size_t i = 0; i < matrices.size(); ++i) {
        const size_t outputs = matrices[i].in_rows.outputs;
        std::vector<float> expected = bench.Multiply(*products[i].weights, x);
        std::fill_n(expected.begin(), ranges[i].first * outputs, -1.0f);
        std::fill(expected.begin() + (ranges[i].first + ranges[i].count) * outputs, expected.end(),
                  -1.0f);
        EXPECT_EQ(outs[i], expected) << Name(type) << " on " << Name(isa) << ", matrix " << i;
      }
    }
  }
}

TEST(Products, ANanOrInfinityInARowReachesEveryResultOfThatRowAlone) {
  Workbench bench(2);
  for (const TensorType type : kTypes) {
    const Matrix matrix(type, 33, 26);
    for (const float bad : {std::nanf(""), INFINITY}) {
      std::vector<float> x = MakeActivations(3);
      const std::vector<float> expected = bench.Multiply(matrix.in_rows, x);
      x[kInputs + 100] = bad;
      const std::vector<float> out = bench.Multiply(matrix.in_rows, x);
      for (uint32_t n = 0; n < 33; ++n) {
        EXPECT_EQ(out[n], expected[n]) << Name(type);
        EXPECT_FALSE(std::isfinite(out[33 + n])) << Name(type);
        EXPECT_EQ(out[66 + n], expected[66 + n]) << Name(type);
      }
    }
  }
}

TEST(Products, NoRowsAndNoMatricesAreNothingToDo) {
  Workbench bench(2);
  bench.Multiply(std::vector<float>(), std::span<const Product>());
  const Matrix matrix(TensorType::kQ4_0, 20, 27);
  EXPECT_TRUE(bench.Multiply(matrix.in_panels, std::vector<float>()).empty());
}

}  // namespace
}  // namespace outrider
