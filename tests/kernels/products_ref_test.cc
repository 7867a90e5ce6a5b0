// The contract itself is accurate: the reference against the same product in double precision, with
// a tolerance derived from what the contract rounds.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/kernels/weight_matrix.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr double kEpsilon = 0x1p-24;  // of one rounding to nearest

// The row that the kernel sees: floats, or quants times their scale.
double Activation(const ActivationRows& x, ActivationForm form, uint32_t r, uint32_t k) {
  if (form == ActivationForm::kFloat) return x.values[r * x.value_stride + k];
  const uint32_t block = form == ActivationForm::kInt8Per32 ? 32 : 256;
  return static_cast<double>(x.scales[k / block * x.scale_stride + r]) *
         x.quants[r * x.quant_stride + k];
}

bool HasMinima(TensorType type) {
  return type == TensorType::kQ4_1 || type == TensorType::kQ5_1 || type == TensorType::kQ4_K ||
         type == TensorType::kQ5_K || type == TensorType::kQ2_K;
}

// With n roundings one after another, each term of a sum is off by n epsilon of its size at most
// (to first order; the 1.01 covers the rest). A float weight's term is in at most 32 fmas of its
// segment and one sum per later segment. An integer weight's term is rounded in float(i) and dw *
// dx, then in one fma per later block (two where there are minima); DecodeRow, which we compare
// with, rounds three times more.
double RoundingsOf(TensorType type, uint32_t inputs) {
  if (FormFor(type) == ActivationForm::kFloat) return 32.0 + inputs / 32 + 1;
  const uint32_t block = Info(type).block_elements;
  return (HasMinima(type) ? 2.0 : 1.0) * (inputs / block) + 2 + 3;
}

TEST(ProductsReference, AgreesWithDoublePrecision) {
  constexpr uint32_t kInputs = 1024;
  constexpr uint32_t kOutputs = 32;
  constexpr uint32_t kRowCount = 3;
  for (const PanelType& type : kPanelTypes) {
    const TensorType tensor_type = *TensorTypeFromName(type.name);
    Bytes panels = MakePanels(type, 2, kInputs, Weights::kRandom, 5);
    RowsOf rows(kRowCount, kInputs, type.block(), Rows::kRandom, 6);
    const ActivationRows x = rows.First(kRowCount);
    std::vector<float> out(kRowCount * kOutputs);
    (KernelsFor(Isa::kScalar).products.*type.kernel)(panels.data(), 2, kOutputs, x, out.data(),
                                                     kOutputs);

    const WeightMatrix matrix = {tensor_type, WeightLayout::kPanels, kOutputs, kInputs,
                                 panels.data()};
    std::vector<float> weights(kInputs);
    for (uint32_t n = 0; n < kOutputs; ++n) {
      DecodeRow(matrix, n, weights);
      for (uint32_t r = 0; r < kRowCount; ++r) {
        double sum = 0;
        double magnitude = 0;
        for (uint32_t k = 0; k < kInputs; ++k) {
          const double term = weights[k] * Activation(x, FormFor(tensor_type), r, k);
          sum += term;
          magnitude += std::abs(term);
        }
        // Where there are minima, terms are differences of a product and a minimum, each of which
        // rounds: for Q4_K up to (15 * 63 + 63) / 1 times the difference's size in theory. Minima
        // and products of random blocks are of one size, so the sum of both is bounded by a few of
        // their differences'.
        const double spread = HasMinima(tensor_type) ? 4.0 : 1.0;
        const double tolerance =
            1.01 * RoundingsOf(tensor_type, kInputs) * kEpsilon * magnitude * spread;
        EXPECT_LE(std::abs(out[r * kOutputs + n] - sum), tolerance)
            << type.name << ", row " << r << ", output " << n;
      }
    }
  }
}

}  // namespace
}  // namespace outrider
