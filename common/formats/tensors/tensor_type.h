// The element types a tensor can be stored in, numbered as GGUF numbers them.
//
// A tensor is rows of dims[0] contiguous elements. Elements come in blocks: one each for the plain
// types, 32 or 256 sharing their scales for the quantised ones, so dims[0] must be a whole number
// of blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace outrider {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;  // "Q4_K", as llama.cpp prints it
  uint32_t block_elements;
  uint32_t block_bytes;
};

// Empty for a number GGUF does not know, or no longer uses.
std::optional<TensorType> TensorTypeFromId(uint32_t id);

// "q4_k" or "Q4_K"; empty for a name nobody knows.
std::optional<TensorType> TensorTypeFromName(std::string_view name);

const TensorTypeInfo& Info(TensorType type);
inline std::string_view Name(TensorType type) {
  return Info(type).name;
}

// Bytes of one row of `elements`, which must be a multiple of the type's block.
uint64_t RowBytes(TensorType type, uint64_t elements);

inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 63;

// Bytes of a whole tensor. InvalidArgument when dims[0] is no whole number of blocks, a dimension
// is zero, there are none or more than four, or the product is
// kTensorBytesMax or more.
absl::StatusOr<uint64_t> TensorBytes(TensorType type, std::span<const uint64_t> dims);

}  // namespace outrider
