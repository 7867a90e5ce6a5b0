// A weight matrix y = W x as kernels read it: in panels of sixteen outputs (formats/tensors/panels.h).
//
// Types without a kernel of their own stay in GGUF rows and are decoded to F32, a panel at a time,
// when used; rows of types that have one are packed a panel at a time then, to the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/formats/tensors/panels.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/kernels/activations.h"

namespace outrider {

// A view of weights someone else keeps.
struct WeightMatrix {
  TensorType type = TensorType::kF32;
  WeightLayout layout = WeightLayout::kRows;
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  const std::byte* data = nullptr;  // 64-byte aligned when in panels
};

ActivationForm FormFor(TensorType type);

// The version of NUMERICS.md that last changed what products with weights of this type give.
uint32_t NumericsVersionOf(TensorType type);

// One panel of floats from 1 to 16 GGUF rows of any type Dequantize() knows. `row` has room for one
// row.
void DecodePanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
                 std::span<float> row, std::span<float> panel);

// Row `output` as floats, from either layout: embeddings are looked up so.
void DecodeRow(const WeightMatrix& matrix, uint32_t output, std::span<float> out);

// Rows of a matrix as a matrix of their own, of the same type and layout, in `memory` of exactly
// GatheredBytes(), aligned as `data` is. A product with it gives the bits of a product with all.
uint64_t GatheredBytes(const WeightMatrix& matrix, uint32_t row_count);
WeightMatrix GatherRows(const WeightMatrix& matrix, std::span<const uint32_t> rows,
                        std::span<std::byte> memory);

}  // namespace outrider
