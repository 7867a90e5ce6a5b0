#include "common/formats/tensors/tensor_type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Ids 4, 5, 31-33 and 36-38 belonged to forms ggml has removed.
constexpr std::array kTypes = std::to_array<TensorTypeInfo>({
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 18},
    {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},
    {TensorType::kQ5_1, "Q5_1", 32, 24},
    {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ8_1, "Q8_1", 32, 36},
    {TensorType::kQ2_K, "Q2_K", 256, 84},
    {TensorType::kQ3_K, "Q3_K", 256, 110},
    {TensorType::kQ4_K, "Q4_K", 256, 144},
    {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},
    {TensorType::kQ8_K, "Q8_K", 256, 292},
    {TensorType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {TensorType::kIQ2_XS, "IQ2_XS", 256, 74},
    {TensorType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {TensorType::kIQ1_S, "IQ1_S", 256, 50},
    {TensorType::kIQ4_NL, "IQ4_NL", 32, 18},
    {TensorType::kIQ3_S, "IQ3_S", 256, 110},
    {TensorType::kIQ2_S, "IQ2_S", 256, 82},
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 136},
    {TensorType::kI8, "I8", 1, 1},
    {TensorType::kI16, "I16", 1, 2},
    {TensorType::kI32, "I32", 1, 4},
    {TensorType::kI64, "I64", 1, 8},
    {TensorType::kF64, "F64", 1, 8},
    {TensorType::kIQ1_M, "IQ1_M", 256, 56},
    {TensorType::kBF16, "BF16", 1, 2},
    {TensorType::kTQ1_0, "TQ1_0", 256, 54},
    {TensorType::kTQ2_0, "TQ2_0", 256, 66},
    {TensorType::kMXFP4, "MXFP4", 32, 17},
    {TensorType::kNVFP4, "NVFP4", 64, 36},
    {TensorType::kQ1_0, "Q1_0", 128, 18},
    {TensorType::kQ2_0, "Q2_0", 64, 18},
});

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::optional<TensorType> TensorTypeFromId(uint32_t id) {
  for (const TensorTypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == id) return info.type;
  }
  return std::nullopt;
}

std::optional<TensorType> TensorTypeFromName(std::string_view name) {
  for (const TensorTypeInfo& info : kTypes) {
    if (EqualsIgnoringCase(info.name, name)) return info.type;
  }
  return std::nullopt;
}

const TensorTypeInfo& Info(TensorType type) {
  const auto* const found = std::ranges::find(kTypes, type, &TensorTypeInfo::type);
  OUTRIDER_CHECK(found != kTypes.end(), "a TensorType is made by TensorTypeFromId only");
  return *found;
}

uint64_t RowBytes(TensorType type, uint64_t elements) {
  const TensorTypeInfo& info = Info(type);
  OUTRIDER_CHECK(elements % info.block_elements == 0, "rows are whole blocks");
  return elements / info.block_elements * info.block_bytes;
}

absl::StatusOr<uint64_t> TensorBytes(TensorType type, std::span<const uint64_t> dims) {
  const TensorTypeInfo& info = Info(type);
  if (dims.empty() || dims.size() > 4) {
    return InvalidArgument("has ", dims.size(), " dimensions, expected 1 to 4");
  }
  if (dims[0] % info.block_elements != 0) {
    return InvalidArgument("has rows of ", dims[0], " elements, ", info.name,
                           " needs a multiple of ", info.block_elements);
  }
  unsigned __int128 bytes =
      static_cast<unsigned __int128>(dims[0] / info.block_elements) * info.block_bytes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return InvalidArgument("has dimension ", i, " of zero elements");
    if (i > 0) bytes *= dims[i];
    if (bytes >= kTensorBytesMax)
      return InvalidArgument("is larger than any file: dimensions overflow");
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace outrider
