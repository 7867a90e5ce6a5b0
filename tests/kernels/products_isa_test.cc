// Every instruction set gives the bits of the reference, for any number of rows and panels, on
// inputs that reach the bounds of NUMERICS.md and leave the ordinary numbers.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr uint32_t kRowsMax = 33;
constexpr float kUntouched = 12345.0f;

struct Shape {
  uint32_t panel_count;
  uint32_t output_count;
  uint32_t inputs;
};

std::vector<float> Multiply(const ProductKernels& kernels, const PanelType& type,
                            const Shape& shape, Bytes& panels, const ActivationRows& x) {
  // One column more than there are outputs, which must stay as it is.
  std::vector<float> out(size_t{x.row_count} * (shape.output_count + 1), kUntouched);
  (kernels.*type.kernel)(panels.data(), shape.panel_count, shape.output_count, x, out.data(),
                         shape.output_count + 1);
  return out;
}

// Which NaN is not specified.
bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

class ProductsOfIsa : public testing::TestWithParam<Isa> {
 protected:
  // For 1 to kRowsMax rows.
  void ExpectReferenceBits(const PanelType& type, const Shape& shape, Weights weights, Rows rows) {
    const uint64_t seed = shape.inputs * 31 + shape.panel_count;
    Bytes panels = MakePanels(type, shape.panel_count, shape.inputs, weights, seed);
    RowsOf x(kRowsMax, shape.inputs, type.block(), rows, seed + 1);
    const std::vector<float> expected =
        Multiply(KernelsFor(Isa::kScalar).products, type, shape, panels, x.First(kRowsMax));
    for (uint32_t row_count = 1; row_count <= kRowsMax; ++row_count) {
      const std::vector<float> actual =
          Multiply(KernelsFor(GetParam()).products, type, shape, panels, x.First(row_count));
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_TRUE(SameBits(actual[i], expected[i]))
            << type.name << ", " << shape.inputs << " inputs, " << shape.panel_count
            << " panels, weights " << static_cast<int>(weights) << ", rows "
            << static_cast<int>(rows) << ": row " << i / (shape.output_count + 1) << " of "
            << row_count << ", output " << i % (shape.output_count + 1) << " is " << actual[i]
            << ", not " << expected[i];
      }
    }
  }
};

TEST_P(ProductsOfIsa, GiveTheReferencesBitsForEveryShape) {
  for (const PanelType& type : kPanelTypes) {
    for (const uint32_t inputs : {32u, 96u, 288u, 256u, 768u, 2048u}) {
      if (inputs % type.block() != 0) continue;
      for (const Shape shape : {Shape{1, 16, inputs}, Shape{1, 5, inputs}, Shape{2, 32, inputs},
                                Shape{3, 47, inputs}, Shape{4, 49, inputs}}) {
        ExpectReferenceBits(type, shape, Weights::kRandom, Rows::kRandom);
      }
    }
  }
}

TEST_P(ProductsOfIsa, GiveTheReferencesBitsForFloatRowsThatEndAnywhere) {
  for (const PanelType& type : kPanelTypes) {
    if (type.quants != nullptr) continue;
    for (const uint32_t inputs : {1u, 7u, 31u, 33u, 63u, 65u, 100u}) {
      ExpectReferenceBits(type, {2, 17, inputs}, Weights::kRandom, Rows::kRandom);
      ExpectReferenceBits(type, {3, 48, inputs}, Weights::kRandom, Rows::kRandom);
    }
  }
}

TEST_P(ProductsOfIsa, GiveTheReferencesBitsForLongRows) {
  for (const PanelType& type : kPanelTypes) {
    ExpectReferenceBits(type, {3, 48, 5632}, Weights::kRandom, Rows::kRandom);
  }
}

TEST_P(ProductsOfIsa, GiveTheReferencesBitsAtTheEndsOfTheIntegerRanges) {
  for (const PanelType& type : kPanelTypes) {
    for (const Weights weights :
         {Weights::kZeroBits, Weights::kOneBits, Weights::kLowest, Weights::kRandom}) {
      for (const Rows rows : {Rows::kHighest, Rows::kLowest, Rows::kAlternating}) {
        ExpectReferenceBits(type, {3, 48, 512}, weights, rows);
      }
    }
  }
}

TEST_P(ProductsOfIsa, GiveTheReferencesBitsOffTheOrdinaryNumbers) {
  for (const PanelType& type : kPanelTypes) {
    for (const Weights weights : {Weights::kRandom, Weights::kAnyScales}) {
      for (const Rows rows : {Rows::kRandom, Rows::kZero, Rows::kTiny, Rows::kNotFinite}) {
        ExpectReferenceBits(type, {3, 48, 512}, weights, rows);
      }
    }
  }
}

// All but the reference itself, which is the first.
std::vector<Isa> OtherIsas() {
  return {SupportedIsas().begin() + 1, SupportedIsas().end()};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProductsOfIsa);
INSTANTIATE_TEST_SUITE_P(Kernels, ProductsOfIsa, testing::ValuesIn(OtherIsas()),
                         [](const auto& param_info) {
                           return std::string(Name(param_info.param));
                         });

}  // namespace
}  // namespace outrider
