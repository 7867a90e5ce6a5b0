#include "common/formats/tensors/panels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

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

}  // namespace

bool HasPanels(TensorType type) {
  return IsPlain(type) || FindQuantPanel(type) != nullptr;
}

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

absl::StatusOr<uint64_t> StoredBytes(WeightLayout layout, TensorType type,
                                     std::span<const uint64_t> dims) {
  const absl::StatusOr<uint64_t> as_rows = TensorBytes(type, dims);
  if (layout == WeightLayout::kRows || !as_rows.ok()) return as_rows;
  constexpr uint64_t kTooMany = uint64_t{1} << 32;
  if (!HasPanels(type)) return InvalidArgument("is ", Name(type), ", which has no panels");
  if (dims.size() < 2) return InvalidArgument("is a vector, which has no panels");
  if (dims[0] >= kTooMany || dims[1] >= kTooMany) {
    return InvalidArgument("has panels of 2^32 elements or more");
  }
  unsigned __int128 bytes = PanelBytes(type, static_cast<uint32_t>(dims[0]));
  bytes *= PanelCount(static_cast<uint32_t>(dims[1]));
  for (const uint64_t dim : dims.subspan(2)) bytes *= dim;
  if (bytes >= kTensorBytesMax) {
    return InvalidArgument("is larger than any file: dimensions overflow");
  }
  return static_cast<uint64_t>(bytes);
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

void UnpackRun(TensorType type, uint32_t inputs, const std::byte* panel, uint32_t n, uint32_t first,
               uint32_t count, std::byte* out) {
  const QuantPanel* const shape = FindQuantPanel(type);
  if (shape != nullptr) {
    UnpackBlocks(*shape, inputs, panel, n, first / shape->block, count / shape->block, out);
    return;
  }
  const size_t bytes = Info(type).block_bytes;
  for (size_t k = 0; k < count; ++k) {
    std::memcpy(out + k * bytes, panel + ((first + k) * kPanelOutputs + n) * bytes, bytes);
  }
}

}  // namespace outrider
