// A weight matrix y = W x as kernels read it: in panels of sixteen outputs.
//
// A panel holds the rows of sixteen consecutive outputs, interleaved so that one vector register
// holds one (or four) elements of each. It is a permutation of the bits of GGUF's rows (plus
// padding to 64 bytes, and a byte for a block of MXFP4), so a packed model is as large as its file.
// panel_layout.h draws it.
//
// Types without a kernel of their own stay in GGUF rows and are decoded to F32, a panel at a time,
// when used. So do streamed layers, whose rows are packed a panel at a time when used: the bits are
// those of the packed matrix. Outputs that do not fill the last panel are padded with zero weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/formats/tensors/tensor_type.h"
#include "common/kernels/activations.h"
#include "common/kernels/panel_layout.h"

namespace outrider {

enum class WeightLayout { kRows, kPanels };

// A view of weights someone else keeps.
struct WeightMatrix {
  TensorType type = TensorType::kF32;
  WeightLayout layout = WeightLayout::kRows;
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  const std::byte* data = nullptr;  // 64-byte aligned when in panels
};

// F32 F16 BF16, Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4, Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS.
bool HasPanels(TensorType type);
ActivationForm FormFor(TensorType type);

// The version of NUMERICS.md that last changed what products with weights of this type give.
uint32_t NumericsVersionOf(TensorType type);

static constexpr uint32_t PanelCount(uint32_t outputs) {
  return outputs / kPanelOutputs + (outputs % kPanelOutputs != 0 ? 1 : 0);
}

// Of a type that has panels. `inputs` is a whole number of blocks.
uint64_t PanelBytes(TensorType type, uint32_t inputs);
uint64_t PackedBytes(TensorType type, uint32_t outputs, uint32_t inputs);

// One panel from 1 to 16 GGUF rows that lie one after another.
void PackPanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
               std::span<std::byte> panel);

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
