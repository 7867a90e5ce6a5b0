// One metadata value of a GGUF file, as it is read (gguf_file.h) and written (gguf_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace outrider {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// An array as it lies in the file: `count` elements of `type`, checked to be there.
struct GgufArray {
  GgufValueType type;
  uint64_t count;
  // Strings: each an eight-byte length and its bytes. Everything else: little-endian elements.
  std::span<const std::byte> bytes;
};

// Integers of every width become (u)int64, both floats double.
struct GgufValue {
  GgufValueType type;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> data;
};

struct GgufKeyValue {
  std::string_view key;
  GgufValue value;
};

// Empty for a number GGUF does not know.
std::optional<GgufValueType> GgufValueTypeFromId(uint32_t id);

// "u32", "string", "array".
std::string_view Name(GgufValueType type);

// Bytes of one number or bool in the file; 0 for strings and arrays, whose size their bytes tell.
size_t FixedBytes(GgufValueType type);

// The number or bool that lies at `bytes`, FixedBytes(type) of them.
GgufValue DecodeFixed(GgufValueType type, const std::byte* bytes);

// The length of the string that begins at `bytes`, which holds its eight-byte length at least.
uint64_t DecodeStringLength(const std::byte* bytes);

// A value as the caller needs it: any integer that fits serves as an integer, integers serve as
// floats. InvalidArgument, "is a string where ...", for the caller to put the key in front of.
absl::StatusOr<uint64_t> ToUint(const GgufValue& value);
absl::StatusOr<int64_t> ToInt(const GgufValue& value);
absl::StatusOr<double> ToFloat(const GgufValue& value);

}  // namespace outrider
