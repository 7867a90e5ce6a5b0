// The product kernels of the GPU that keep the processor's contract, thread after thread, against
// the scalar references, bit for bit: any number of rows, whichever kernel computes them, with
// weights and rows that hurt. (Those of F16 and BF16: split_products_test.cc.)
#include "common/cuda/kernels/products.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/testing/rows_on_gpu.h"
#include "common/cuda/testing/segments_by_reference.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/kernels/weight_matrix.h"
#include "gtest/gtest.h"

namespace outrider::gpu {
namespace {

const PanelType& TypeNamed(const std::string& name) {
  for (const PanelType& type : kPanelTypes) {
    if (type.name == name) return type;
  }
  ADD_FAILURE() << name;
  return kPanelTypes[0];
}

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Without a bias, and nowhere yet.
Product ProductOf(const PanelType& type, Bytes& panels, uint32_t outputs, const GpuRows& x,
                  size_t stride) {
  return {.panels = panels.data(),
          .panel_bytes = type.Size(x.inputs),
          .outputs = outputs,
          .inputs = x.inputs,
          .bias = nullptr,
          .x = x,
          .out = nullptr,
          .out_stride = stride};
}

template <typename Body>
std::vector<float> Emulated(const Product& product, size_t size) {
  std::vector<float> out(size, -1.0f);
  Body body{product};
  body.product.out = out.data();
  const uint32_t row_tiles = (product.x.row_count + Body::kRows - 1) / Body::kRows;
  Emulate(body, row_tiles, PanelBlocksOf(body));
  return out;
}

constexpr Weights kWeights[] = {Weights::kRandom, Weights::kZeroBits, Weights::kOneBits,
                                Weights::kLowest, Weights::kAnyScales};
constexpr Rows kRows[] = {Rows::kRandom, Rows::kTiny, Rows::kHighest, Rows::kAlternating,
                          Rows::kNotFinite};

// One panel and a bit. Where inputs are few, all kinds of weights meet all kinds of rows; else one each.
template <typename Body>
void ExpectReferenceBits(const std::string& name, uint32_t inputs, uint32_t row_count) {
  const ScopedIeeeMode ieee;
  const PanelType& type = TypeNamed(name);
  constexpr uint32_t kOutputs = 27;
  for (size_t w = 0; w < std::size(kWeights); ++w) {
    for (size_t m = 0; m < std::size(kRows); ++m) {
      if (inputs > 256 && w != m) continue;
      const Weights weights = kWeights[w];
      const Rows rows = kRows[m];
      Bytes panels = MakePanels(type, 2, inputs, weights, 5);
      RowsOf made(row_count, inputs, type.block(), rows, 7);
      const RowsOnGpu here(made.First(row_count), type.block(), row_count % 3);
      const size_t stride = kOutputs + 3;
      std::vector<float> expected(row_count * stride, -1.0f);
      MultiplyByReference(type, panels.data(), kOutputs, made.First(row_count), expected.data(),
                          stride);
      const Product product = ProductOf(type, panels, kOutputs, here.View(), stride);
      const std::vector<float> actual = Emulated<Body>(product, expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(SameBits(actual[i], expected[i]))
            << name << ", " << inputs << " inputs, " << row_count << " rows, weights "
            << static_cast<int>(weights) << ", rows " << static_cast<int>(rows) << ", row "
            << i / stride << ", output " << i % stride << ": " << actual[i] << " for "
            << expected[i];
      }
    }
  }
}

template <typename Type>
void ExpectQuantBits(const std::string& name, std::initializer_list<uint32_t> block_counts) {
  for (const uint32_t blocks : block_counts) {
    const uint32_t inputs = blocks * Type::kBlock;
    for (const uint32_t rows : {1u, 8u, 9u}) {
      ExpectReferenceBits<OneTileDealt<Type>>(name, inputs, rows);
    }
    for (const uint32_t rows : {9u, 16u}) {
      ExpectReferenceBits<TwoTilesDealt<Type>>(name, inputs, rows);
    }
    for (const uint32_t rows : {17u, 33u}) {
      ExpectReferenceBits<SomeTilesDealt<Type>>(name, inputs, rows);
    }
    for (const uint32_t rows : {5u, 70u}) {
      ExpectReferenceBits<TilesOwned<Type>>(name, inputs, rows);
    }
  }
}

// Part of a segment, one of a few warps, and more than a block has warps.
TEST(ProductKernels, Q8_0) {
  ExpectQuantBits<Q8_0Block>("Q8_0", {1, 3, 35, 131});
}
TEST(ProductKernels, Q4_0) {
  ExpectQuantBits<Q4_0Block>("Q4_0", {1, 5, 33, 150});
}
TEST(ProductKernels, Q4_K) {
  ExpectQuantBits<Q4_KBlock>("Q4_K", {1, 9, 17});
}
TEST(ProductKernels, Q5_K) {
  ExpectQuantBits<Q5_KBlock>("Q5_K", {1, 9, 17});
}
TEST(ProductKernels, Q6_K) {
  ExpectQuantBits<Q6_KBlock>("Q6_K", {1, 9, 17});
}

// Of five panels and a bit, with as many segments as one warp, some, all, and more than a block's
// warps have at a time; and with a last turn of a block that is not full.
template <typename Body>
void ExpectTurns(const std::string& name, uint32_t row_count) {
  const ScopedIeeeMode ieee;
  const PanelType& type = TypeNamed(name);
  constexpr uint32_t kOutputs = 5 * 16 + 3;
  for (const uint32_t inputs : {512u, 1280u, 4096u, 4864u, 9472u}) {
    Bytes panels = MakePanels(type, PanelCount(kOutputs), inputs, Weights::kRandom, 5);
    RowsOf made(row_count, inputs, type.block(), Rows::kRandom, 7);
    const RowsOnGpu here(made.First(row_count), type.block());
    std::vector<float> expected(row_count * kOutputs);
    MultiplyByReference(type, panels.data(), kOutputs, made.First(row_count), expected.data(),
                        kOutputs);
    for (const uint32_t panels_of_block : {1u, 2u, 4u, 100u}) {
      Product product = ProductOf(type, panels, kOutputs, here.View(), kOutputs);
      product.panels_of_block = panels_of_block;
      EXPECT_EQ(Emulated<Body>(product, expected.size()), expected)
          << name << ", " << inputs << " inputs, " << panels_of_block << " panels of a block";
    }
  }
}
TEST(ProductKernels, ABlockGoesThroughSeveralPanels) {
  ExpectTurns<OneTileDealt<Q4_0Block>>("Q4_0", 3);
  ExpectTurns<TwoTilesDealt<Q8_0Block>>("Q8_0", 9);
  ExpectTurns<SomeTilesDealt<Q4_0Block>>("Q4_0", 20);
  ExpectTurns<TwoTilesDealt<Q4_KBlock>>("Q4_K", 16);
}

TEST(ProductKernels, F32) {
  for (const uint32_t inputs : {4u, 36u, 1100u}) {
    for (const uint32_t rows : {1u, 8u, 11u}) {
      ExpectReferenceBits<FloatProduct>("F32", inputs, rows);
    }
  }
}

TEST(ProductKernels, ABiasIsAddedAfterwards) {
  const PanelType& type = TypeNamed("Q8_0");
  Bytes panels = MakePanels(type, 1, 64, Weights::kRandom, 1);
  RowsOf rows(3, 64, 32, Rows::kRandom, 2);
  const std::vector<float> bias = {0.5f, -3.0f, 1e6f, 0.0f, 7.0f};
  const RowsOnGpu here(rows.First(3), 32);
  Product product = {.panels = panels.data(),
                     .panel_bytes = type.Size(64),
                     .outputs = 5,
                     .inputs = 64,
                     .bias = nullptr,
                     .x = here.View(),
                     .out = nullptr,
                     .out_stride = 5};
  std::vector<float> expected = Emulated<OneTileDealt<Q8_0Block>>(product, 15);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 5];
  product.bias = bias.data();
  EXPECT_EQ(Emulated<OneTileDealt<Q8_0Block>>(product, 15), expected);
  EXPECT_EQ(Emulated<TilesOwned<Q8_0Block>>(product, 15), expected);
}

// One grid for three matrices, or one for each where there is no kernel for them jointly: as each by
// itself.
TEST(ProductKernels, MatricesOfTheSameRowsGoJointly) {
  const ScopedIeeeMode ieee;
  constexpr std::pair<const char*, PanelKind> kTypes[] = {{"Q4_0", PanelKind::kQ4_0},
                                                          {"Q4_K", PanelKind::kQ4_K},
                                                          {"BF16", PanelKind::kBf16},
                                                          {"F32", PanelKind::kF32}};
  constexpr uint32_t kInputs = 512, kOutputs[] = {27, 48, 3};
  const auto emulate = [](const auto& body, uint32_t x, uint32_t y) { Emulate(body, x, y); };
  for (const auto& [name, kind] : kTypes) {
    const PanelType& type = TypeNamed(name);
    for (const uint32_t row_count : {1u, 9u, 17u}) {
      RowsOf rows(row_count, kInputs, type.block(), Rows::kRandom, 2);
      const RowsOnGpu here(rows.First(row_count), type.block());
      std::vector<Bytes> panels;
      std::vector<float> expected[3], actual[3];
      JointProducts joint = {{}, 3};
      for (uint32_t i = 0; i < 3; ++i) {
        panels.push_back(MakePanels(type, PanelCount(kOutputs[i]), kInputs, Weights::kRandom, i));
        expected[i].assign(size_t{row_count} * kOutputs[i], -1.0f);
        actual[i] = expected[i];
        joint.each[i] = {.panels = panels[i].data(),
                         .panel_bytes = type.Size(kInputs),
                         .outputs = kOutputs[i],
                         .inputs = kInputs,
                         .bias = nullptr,
                         .x = here.View(),
                         .out = expected[i].data(),
                         .out_stride = kOutputs[i]};
        UseProduct(joint.each[i], kind, emulate);
        joint.each[i].out = actual[i].data();
      }
      UseJointProducts(joint, kind, emulate);
      for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(actual[i], expected[i]) << name << ", " << i;
    }
  }
}

TEST(PanelElements, AreWhatFilesDecodeTo) {
  struct Kind {
    const char* name;
    TensorType type;
    PanelKind kind;
  };
  constexpr Kind kKinds[] = {
      {"F32", TensorType::kF32, PanelKind::kF32},    {"F16", TensorType::kF16, PanelKind::kF16},
      {"BF16", TensorType::kBF16, PanelKind::kBf16}, {"Q8_0", TensorType::kQ8_0, PanelKind::kQ8_0},
      {"Q4_0", TensorType::kQ4_0, PanelKind::kQ4_0}, {"Q4_K", TensorType::kQ4_K, PanelKind::kQ4_K},
      {"Q5_K", TensorType::kQ5_K, PanelKind::kQ5_K}, {"Q6_K", TensorType::kQ6_K, PanelKind::kQ6_K}};
  for (const Kind& kind : kKinds) {
    const PanelType& type = TypeNamed(kind.name);
    constexpr uint32_t kInputs = 512;
    Bytes panels = MakePanels(type, 1, kInputs, Weights::kRandom, 3);
    const WeightMatrix matrix = {kind.type, WeightLayout::kPanels, 16, kInputs, panels.data()};
    std::vector<float> expected(kInputs);
    for (uint32_t n = 0; n < 16; ++n) {
      DecodeRow(matrix, n, expected);
      for (uint32_t k = 0; k < kInputs; ++k) {
        ASSERT_TRUE(SameBits(ElementOf(kind.kind, panels.data(), kInputs, n, k), expected[k]))
            << kind.name << ", output " << n << ", input " << k;
      }
    }
  }
}

}  // namespace
}  // namespace outrider::gpu
