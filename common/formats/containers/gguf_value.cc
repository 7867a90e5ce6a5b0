#include "common/formats/containers/gguf_value.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read where it lies");

constexpr uint32_t kTypeCount = 13;

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

std::optional<GgufValueType> GgufValueTypeFromId(uint32_t id) {
  if (id >= kTypeCount) return std::nullopt;
  return static_cast<GgufValueType>(id);
}

std::string_view Name(GgufValueType type) {
  constexpr std::array<std::string_view, kTypeCount> kNames = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

size_t FixedBytes(GgufValueType type) {
  constexpr std::array<uint8_t, kTypeCount> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

GgufValue DecodeFixed(GgufValueType type, const std::byte* bytes) {
  switch (type) {
    case GgufValueType::kUint8:
      return {type, uint64_t{Load<uint8_t>(bytes)}};
    case GgufValueType::kInt8:
      return {type, int64_t{Load<int8_t>(bytes)}};
    case GgufValueType::kUint16:
      return {type, uint64_t{Load<uint16_t>(bytes)}};
    case GgufValueType::kInt16:
      return {type, int64_t{Load<int16_t>(bytes)}};
    case GgufValueType::kUint32:
      return {type, uint64_t{Load<uint32_t>(bytes)}};
    case GgufValueType::kInt32:
      return {type, int64_t{Load<int32_t>(bytes)}};
    case GgufValueType::kUint64:
      return {type, Load<uint64_t>(bytes)};
    case GgufValueType::kInt64:
      return {type, Load<int64_t>(bytes)};
    case GgufValueType::kFloat32:
      return {type, double{Load<float>(bytes)}};
    case GgufValueType::kFloat64:
      return {type, Load<double>(bytes)};
    case GgufValueType::kBool:
      return {type, Load<uint8_t>(bytes) != 0};
    case GgufValueType::kString:
    case GgufValueType::kArray:
      break;
  }
  OUTRIDER_CHECK(false, "strings and arrays have no fixed size");
}

uint64_t DecodeStringLength(const std::byte* bytes) {
  return Load<uint64_t>(bytes);
}

absl::StatusOr<uint64_t> ToUint(const GgufValue& value) {
  if (const auto* unsigned_value = std::get_if<uint64_t>(&value.data)) return *unsigned_value;
  if (const auto* signed_value = std::get_if<int64_t>(&value.data)) {
    if (*signed_value >= 0) return static_cast<uint64_t>(*signed_value);
    return InvalidArgument("is ", *signed_value, ", it must not be negative");
  }
  return InvalidArgument("is of type ", Name(value.type), ", an integer is needed");
}

absl::StatusOr<int64_t> ToInt(const GgufValue& value) {
  if (const auto* signed_value = std::get_if<int64_t>(&value.data)) return *signed_value;
  if (const auto* unsigned_value = std::get_if<uint64_t>(&value.data)) {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (*unsigned_value <= kLargest) return static_cast<int64_t>(*unsigned_value);
    return InvalidArgument("is ", *unsigned_value, ", it must be at most ", kLargest);
  }
  return InvalidArgument("is of type ", Name(value.type), ", an integer is needed");
}

absl::StatusOr<double> ToFloat(const GgufValue& value) {
  if (const auto* float_value = std::get_if<double>(&value.data)) return *float_value;
  if (const auto* unsigned_value = std::get_if<uint64_t>(&value.data)) {
    return static_cast<double>(*unsigned_value);
  }
  if (const auto* signed_value = std::get_if<int64_t>(&value.data)) {
    return static_cast<double>(*signed_value);
  }
  return InvalidArgument("is of type ", Name(value.type), ", a number is needed");
}

}  // namespace outrider
