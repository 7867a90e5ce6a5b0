#include "common/kernels/weight_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

// How much of a row DecodeRow() puts together again before decoding it: a K-quant block, or as many
// floats.
constexpr uint32_t kRunElements = 256;
constexpr size_t kRunBytesMax = kRunElements * sizeof(float);

const QuantPanel* FindQuantPanel(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return &kQ8_0Panel;
    case TensorType::kQ4_0:
      return &kQ4_0Panel;
    case TensorType::kQ4_1:
      return &kQ4_1Panel;
    case TensorType::kQ5_0:
      return &kQ5_0Panel;
    case TensorType::kQ5_1:
      return &kQ5_1Panel;
    case TensorType::kIQ4_NL:
      return &kIQ4_NLPanel;
    case TensorType::kMXFP4:
      return &kMXFP4Panel;
    case TensorType::kQ4_K:
      return &kQ4_KPanel;
    case TensorType::kQ5_K:
      return &kQ5_KPanel;
    case TensorType::kQ6_K:
      return &kQ6_KPanel;
    case TensorType::kQ2_K:
      return &kQ2_KPanel;
    case TensorType::kQ3_K:
      return &kQ3_KPanel;
    case TensorType::kIQ4_XS:
      return &kIQ4_XSPanel;
    default:
      return nullptr;
  }
}

bool IsPlain(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

// GGUF's block: scales first, or last.
struct BlockParts {
  size_t bytes;
  size_t half_bytes;  // of each scale
  size_t halves_at;
  size_t dwords_at;
};

constexpr BlockParts PartsOf(const QuantPanel& panel) {
  const size_t half_bytes = panel.exponents ? 1 : 2;
  return {.bytes = 4 * panel.lines + half_bytes * panel.halves,
          .half_bytes = half_bytes,
          .halves_at = panel.halves_at,
          .dwords_at = panel.halves_at == 0 ? half_bytes * panel.halves : size_t{0}};
}

// Bit 4t + i of GGUF's word of fifth bits becomes bit t of byte i, where one shift of the dword
// takes those of four elements beside their nibbles. Of four bits in a row, multiplied by 1 + 2^7 +
// 2^14 + 2^21, bit i is at 8i; back again each goes to 24 + i. No two terms of either product meet.
uint32_t DealFifthBits(uint32_t word) {
  uint32_t dealt = 0;
  for (uint32_t t = 0; t < 8; ++t) {
    dealt |= ((word >> 4 * t & 15) * 0x00204081u & 0x01010101u) << t;
  }
  return dealt;
}

uint32_t GatherFifthBits(uint32_t dealt) {
  uint32_t word = 0;
  for (uint32_t t = 0; t < 8; ++t) {
    word |= ((dealt >> t & 0x01010101u) * 0x01020408u >> 24 & 15) << 4 * t;
  }
  return word;
}

// Between GGUF's byte e, for 2^(e - 128), and the bfloat16 of that: the lowest two are subnormal.
uint16_t Bfloat16OfExponent(uint8_t exponent) {
  return static_cast<uint16_t>(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
}

uint8_t ExponentOfBfloat16(uint16_t bits) {
  return static_cast<uint8_t>(bits < 0x80 ? bits >> 6 : (bits >> 7) + 1);
}

template <size_t kBytes>
void PackPlain(uint32_t inputs, const std::byte* rows, uint32_t row_count, std::byte* panel) {
  for (uint32_t k = 0; k < inputs; ++k) {
    for (uint32_t n = 0; n < row_count; ++n) {
      std::memcpy(panel + (size_t{k} * kPanelOutputs + n) * kBytes,
                  rows + (size_t{n} * inputs + k) * kBytes, kBytes);
    }
  }
}

// Four dwords of each of four outputs become four outputs of each of four lines. The compiler knows a
// register of 16 bytes and its shuffles on every processor we run on.
void DealFour(const std::byte* rows, size_t row_bytes, std::byte* lines) {
  using Dwords = uint32_t __attribute__((vector_size(16)));
  std::array<Dwords, 4> row;
  for (size_t i = 0; i < 4; ++i) std::memcpy(&row[i], rows + i * row_bytes, sizeof(Dwords));
  const Dwords low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Dwords high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Dwords low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Dwords high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const std::array<Dwords, 4> line = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                      __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                      __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                      __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (size_t i = 0; i < 4; ++i) std::memcpy(lines + i * kLineBytes, &line[i], sizeof(Dwords));
}

// The dwords of a block of `row_count` outputs, `count` each, to their lines: of a whole panel four by
// four, and what four does not divide once more with those before it.
void DealDwords(const std::byte* dwords, size_t row_bytes, uint32_t row_count, uint32_t count,
                std::byte* lines) {
  if (row_count < kPanelOutputs) {
    for (uint32_t n = 0; n < row_count; ++n) {
      for (uint32_t t = 0; t < count; ++t) {
        std::memcpy(lines + t * kLineBytes + 4 * n, dwords + n * row_bytes + 4 * t, 4);
      }
    }
    return;
  }
  for (uint32_t begin = 0; begin < count; begin += 4) {
    const uint32_t t = std::min(begin, count - 4);
    for (uint32_t n = 0; n < kPanelOutputs; n += 4) {
      DealFour(dwords + n * row_bytes + 4 * t, row_bytes, lines + t * kLineBytes + 4 * n);
    }
  }
}

// The shape is a template argument so that the loops over lines and rows are unrolled.
//
// Rows are read side by side, in sixteen streams, which a processor fetches ahead worse than one. So
// what lies behind them, the next panel's rows where panels are packed one after another, is fetched
// from end to end meanwhile; where nothing does, that is nothing.
template <const QuantPanel& kShape>
void PackQuants(uint32_t inputs, const std::byte* rows, uint32_t row_count, std::byte* panel) {
  static_assert(kShape.lines >= 4);
  constexpr BlockParts kParts = PartsOf(kShape);
  const uint32_t block_count = inputs / kShape.block;
  const size_t row_bytes = block_count * kParts.bytes;
  const std::byte* behind = rows + row_count * row_bytes;
  std::byte* lines = panel;
  std::byte* halves = panel + HalvesOffset(kShape, inputs);
  for (uint32_t b = 0; b < block_count; ++b) {
    for (size_t i = 0; i < kParts.bytes * kPanelOutputs; i += kLineBytes) {
      __builtin_prefetch(behind + i);
    }
    behind += kParts.bytes * kPanelOutputs;
    const std::byte* const block = rows + b * kParts.bytes;
    DealDwords(block + kParts.dwords_at, row_bytes, row_count, kShape.lines, lines);
    for (uint32_t n = 0; n < row_count; ++n) {
      const std::byte* const row = block + n * row_bytes;
      if constexpr (kShape.fifth_word) {
        uint32_t word = 0;
        std::memcpy(&word, row + kParts.dwords_at, sizeof(word));
        word = DealFifthBits(word);
        std::memcpy(lines + 4 * n, &word, sizeof(word));
      }
      for (uint32_t h = 0; h < kShape.halves; ++h) {
        const std::byte* const from = row + kParts.halves_at + kParts.half_bytes * h;
        std::byte* const to = halves + h * kHalvesBytes + 2 * n;
        if constexpr (kShape.exponents) {
          const uint16_t half = Bfloat16OfExponent(std::to_integer<uint8_t>(*from));
          std::memcpy(to, &half, sizeof(half));
        } else {
          std::memcpy(to, from, 2);
        }
      }
    }
    lines += kShape.lines * kLineBytes;
    halves += kShape.halves * kHalvesBytes;
  }
}

// Blocks [first, first + count) of one output as GGUF has them.
void UnpackBlocks(const QuantPanel& shape, uint32_t inputs, const std::byte* panel, uint32_t n,
                  uint32_t first, uint32_t count, std::byte* blocks) {
  const BlockParts parts = PartsOf(shape);
  const std::byte* lines = panel + size_t{first} * shape.lines * kLineBytes;
  const std::byte* halves =
      panel + HalvesOffset(shape, inputs) + size_t{first} * shape.halves * kHalvesBytes;
  for (uint32_t b = 0; b < count; ++b, blocks += parts.bytes) {
    for (uint32_t t = 0; t < shape.lines; ++t, lines += kLineBytes) {
      std::memcpy(blocks + parts.dwords_at + 4 * t, lines + 4 * n, 4);
    }
    if (shape.fifth_word) {
      uint32_t word = 0;
      std::memcpy(&word, blocks + parts.dwords_at, sizeof(word));
      word = GatherFifthBits(word);
      std::memcpy(blocks + parts.dwords_at, &word, sizeof(word));
    }
    for (uint32_t h = 0; h < shape.halves; ++h, halves += kHalvesBytes) {
      std::byte* const to = blocks + parts.halves_at + parts.half_bytes * h;
      if (shape.exponents) {
        uint16_t half = 0;
        std::memcpy(&half, halves + 2 * n, sizeof(half));
        *to = std::byte{ExponentOfBfloat16(half)};
      } else {
        std::memcpy(to, halves + 2 * n, 2);
      }
    }
  }
}

void DecodePacked(const WeightMatrix& matrix, uint32_t output, std::span<float> out) {
  const std::byte* const panel =
      matrix.data + output / kPanelOutputs * PanelBytes(matrix.type, matrix.inputs);
  const uint32_t n = output % kPanelOutputs;
  const TensorTypeInfo& info = Info(matrix.type);
  const QuantPanel* const shape = FindQuantPanel(matrix.type);
  alignas(kLineBytes) std::array<std::byte, kRunBytesMax> run;
  for (uint32_t k = 0; k < matrix.inputs; k += kRunElements) {
    const uint32_t count = std::min(kRunElements, matrix.inputs - k);
    const size_t bytes = RowBytes(matrix.type, count);
    if (shape != nullptr) {
      UnpackBlocks(*shape, matrix.inputs, panel, n, k / shape->block, count / shape->block,
                   run.data());
    } else {
      for (uint32_t i = 0; i < count; ++i) {
        std::memcpy(run.data() + i * info.block_bytes,
                    panel + (size_t{k + i} * kPanelOutputs + n) * info.block_bytes,
                    info.block_bytes);
      }
    }
    OUTRIDER_CHECK_OK(Dequantize(matrix.type, std::span(run).first(bytes), out.subspan(k, count)));
  }
}

// Elements of one output, each in a place of its own: from lane to lane, `stride` bytes apart.
template <size_t kBytes>
void CopyLane(const std::byte* from, std::byte* to, size_t stride, size_t count) {
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * stride, kBytes);
}

// Output `n` of a panel becomes output `m` of another of the same type.
void CopyOutput(TensorType type, uint32_t inputs, const std::byte* from, uint32_t n, std::byte* to,
                uint32_t m) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape == nullptr) {
    if (Info(type).block_bytes == 4) {
      CopyLane<4>(from + 4 * n, to + 4 * m, 4 * kPanelOutputs, inputs);
    } else {
      CopyLane<2>(from + 2 * n, to + 2 * m, 2 * kPanelOutputs, inputs);
    }
    return;
  }
  const size_t block_count = inputs / shape->block;
  const size_t halves = HalvesOffset(*shape, inputs);
  CopyLane<4>(from + 4 * n, to + 4 * m, kLineBytes, block_count * shape->lines);
  CopyLane<2>(from + halves + 2 * n, to + halves + 2 * m, kHalvesBytes,
              block_count * shape->halves);
}

}  // namespace

bool HasPanels(TensorType type) {
  return IsPlain(type) || FindQuantPanel(type) != nullptr;
}

ActivationForm FormFor(TensorType type) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape == nullptr) return ActivationForm::kFloat;
  return shape->block == 32 ? ActivationForm::kInt8Per32 : ActivationForm::kInt8Per256;
}

uint32_t NumericsVersionOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kIQ4_NL:
    case TensorType::kMXFP4:
    case TensorType::kQ5_K:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kIQ4_XS:
      return 2;  // decoded to F32 before, or not run
    default:
      return kNumericsVersion;
  }
}

uint64_t PanelBytes(TensorType type, uint32_t inputs) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape != nullptr) {
    OUTRIDER_CHECK(inputs % shape->block == 0, "rows are whole blocks");
    return PanelSize(*shape, inputs);
  }
  OUTRIDER_CHECK(IsPlain(type), "the type has panels");
  return PlainPanelSize(Info(type).block_bytes, inputs);
}

uint64_t PackedBytes(TensorType type, uint32_t outputs, uint32_t inputs) {
  return PanelCount(outputs) * PanelBytes(type, inputs);
}

void PackPanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
               std::span<std::byte> panel) {
  const size_t row_bytes = RowBytes(type, inputs);
  const size_t row_count = rows.size() / row_bytes;
  OUTRIDER_CHECK(rows.size() % row_bytes == 0 && row_count >= 1 && row_count <= kPanelOutputs,
                 "a panel is made of 1 to 16 whole rows");
  OUTRIDER_CHECK(panel.size() == PanelBytes(type, inputs), "a panel has its size");
  // What no row fills: missing outputs, and the end of the last line.
  if (row_count < kPanelOutputs) {
    std::memset(panel.data(), 0, panel.size());
  } else {
    std::memset(panel.data() + panel.size() - kLineBytes, 0, kLineBytes);
  }
  const auto count = static_cast<uint32_t>(row_count);
  switch (type) {
    case TensorType::kQ8_0:
      return PackQuants<kQ8_0Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ4_0:
      return PackQuants<kQ4_0Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ4_1:
      return PackQuants<kQ4_1Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ5_0:
      return PackQuants<kQ5_0Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ5_1:
      return PackQuants<kQ5_1Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kIQ4_NL:
      return PackQuants<kIQ4_NLPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kMXFP4:
      return PackQuants<kMXFP4Panel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ4_K:
      return PackQuants<kQ4_KPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ5_K:
      return PackQuants<kQ5_KPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ6_K:
      return PackQuants<kQ6_KPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ2_K:
      return PackQuants<kQ2_KPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kQ3_K:
      return PackQuants<kQ3_KPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kIQ4_XS:
      return PackQuants<kIQ4_XSPanel>(inputs, rows.data(), count, panel.data());
    case TensorType::kF32:
      return PackPlain<4>(inputs, rows.data(), count, panel.data());
    default:  // the halves; others have no PanelBytes()
      return PackPlain<2>(inputs, rows.data(), count, panel.data());
  }
}

void DecodePanel(TensorType type, uint32_t inputs, std::span<const std::byte> rows,
                 std::span<float> row, std::span<float> panel) {
  const size_t row_bytes = RowBytes(type, inputs);
  const size_t row_count = rows.size() / row_bytes;
  OUTRIDER_CHECK(rows.size() % row_bytes == 0 && row_count >= 1 && row_count <= kPanelOutputs,
                 "a panel is made of 1 to 16 whole rows");
  OUTRIDER_CHECK(row.size() >= inputs && panel.size() == size_t{inputs} * kPanelOutputs,
                 "there is room for a row and a panel");
  if (row_count < kPanelOutputs) std::ranges::fill(panel, 0.0f);
  for (size_t n = 0; n < row_count; ++n) {
    OUTRIDER_CHECK_OK(Dequantize(type, rows.subspan(n * row_bytes, row_bytes), row.first(inputs)));
    for (size_t k = 0; k < inputs; ++k) panel[k * kPanelOutputs + n] = row[k];
  }
}

void DecodeRow(const WeightMatrix& matrix, uint32_t output, std::span<float> out) {
  OUTRIDER_CHECK(output < matrix.outputs && out.size() == matrix.inputs,
                 "the row exists and there is room for it");
  if (matrix.layout == WeightLayout::kPanels) return DecodePacked(matrix, output, out);
  const size_t row_bytes = RowBytes(matrix.type, matrix.inputs);
  OUTRIDER_CHECK_OK(
      Dequantize(matrix.type, std::span(matrix.data + output * row_bytes, row_bytes), out));
}

uint64_t GatheredBytes(const WeightMatrix& matrix, uint32_t row_count) {
  return matrix.layout == WeightLayout::kPanels ? PackedBytes(matrix.type, row_count, matrix.inputs)
                                                : row_count * RowBytes(matrix.type, matrix.inputs);
}

WeightMatrix GatherRows(const WeightMatrix& matrix, std::span<const uint32_t> rows,
                        std::span<std::byte> memory) {
  const auto count = static_cast<uint32_t>(rows.size());
  OUTRIDER_CHECK(memory.size() == GatheredBytes(matrix, count), "the rows get what they need");
  const bool in_panels = matrix.layout == WeightLayout::kPanels;
  const size_t panel_bytes = in_panels ? PanelBytes(matrix.type, matrix.inputs) : 0;
  const size_t row_bytes = RowBytes(matrix.type, matrix.inputs);
  if (in_panels && count % kPanelOutputs != 0) {  // what no row fills is padding
    std::ranges::fill(memory.last(panel_bytes), std::byte{0});
  }
  for (uint32_t i = 0; i < count; ++i) {
    OUTRIDER_CHECK(rows[i] < matrix.outputs, "the matrix has the row");
    if (in_panels) {
      CopyOutput(matrix.type, matrix.inputs, matrix.data + rows[i] / kPanelOutputs * panel_bytes,
                 rows[i] % kPanelOutputs, memory.data() + i / kPanelOutputs * panel_bytes,
                 i % kPanelOutputs);
    } else {
      std::memcpy(memory.data() + i * row_bytes, matrix.data + rows[i] * row_bytes, row_bytes);
    }
  }
  return {.type = matrix.type,
          .layout = matrix.layout,
          .outputs = count,
          .inputs = matrix.inputs,
          .data = memory.data()};
}

}  // namespace outrider
