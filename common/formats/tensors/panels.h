// Weights in panels: the rows of sixteen consecutive outputs of a matrix, interleaved as products read
// them, so that one vector register holds one (or four) elements of each. panel_layout.h draws it.
//
// A panel is a permutation of the bits of GGUF's rows (plus padding to 64 bytes, and a byte for a block
// of MXFP4), so panels are as large as rows, and rows can be had back from them to the bit. They are the
// same for every processor, so that a file may keep them (containers/GGUF.md).
//
// Outputs that do not fill the last panel are padded with zero weights. Of stacked matrices each has
// panels of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/formats/tensors/panel_layout.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

enum class WeightLayout { kRows, kPanels };

// F32 F16 BF16, Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4, Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS.
bool HasPanels(TensorType type);
// Null for plain elements, and for a type without panels.
const QuantPanel* FindQuantPanel(TensorType type);

static constexpr uint32_t PanelCount(uint32_t outputs) {
  return outputs / kPanelOutputs + (outputs % kPanelOutputs != 0 ? 1 : 0);
}

// Of a type that has panels. `inputs` is a whole number of blocks.
uint64_t PanelBytes(TensorType type, uint32_t inputs);
uint64_t PackedBytes(TensorType type, uint32_t outputs, uint32_t inputs);

// Of a whole tensor as it is stored. InvalidArgument as TensorBytes(), and of panels for a type without them,
// for what is no matrix or stack of matrices, and for 2^32 inputs or outputs.
absl::StatusOr<uint64_t> StoredBytes(WeightLayout layout, TensorType type,
                                     std::span<const uint64_t> dims);

// One panel from 1 to 16 GGUF rows that lie one after another.
void PackPanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
               std::span<std::byte> panel);

// Elements [first, first + count) of output `n` of a panel as GGUF has them, whole blocks.
void UnpackRun(TensorType type, uint32_t inputs, const std::byte* panel, uint32_t n, uint32_t first,
               uint32_t count, std::byte* out);

}  // namespace outrider
