// GGUF files spelled out byte by byte, so that tests can make the ones no writer would.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/containers/gguf_value.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

template <typename T>
std::string Packed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string PackedString(std::string_view text) {
  return Packed<uint64_t>(text.size()) + std::string(text);
}

inline std::string PackedKey(std::string_view key, uint32_t type, std::string_view payload) {
  return PackedString(key) + Packed(type) + std::string(payload);
}

inline std::string PackedKey(std::string_view key, GgufValueType type, std::string_view payload) {
  return PackedKey(key, static_cast<uint32_t>(type), payload);
}

inline std::string PackedArray(GgufValueType type, uint64_t count, std::string_view elements) {
  return Packed(static_cast<uint32_t>(type)) + Packed(count) + std::string(elements);
}

inline std::string PackedTensor(std::string_view name, const std::vector<uint64_t>& dims,
                                uint32_t type, uint64_t offset) {
  std::string bytes = PackedString(name) + Packed(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) bytes += Packed(dim);
  return bytes + Packed(type) + Packed(offset);
}

// A whole file. The counts are those of the lists unless a test claims others.
struct GgufBytes {
  uint32_t version = 3;
  std::vector<std::string> keys = {};
  std::vector<std::string> tensors = {};
  std::string data = {};
  uint64_t alignment = 32;
  std::optional<uint64_t> claimed_keys = {};
  std::optional<uint64_t> claimed_tensors = {};

  std::string Encode() const {
    std::string bytes = "GGUF" + Packed(version) +
                        Packed<uint64_t>(claimed_tensors.value_or(tensors.size())) +
                        Packed<uint64_t>(claimed_keys.value_or(keys.size()));
    for (const std::string& key : keys) bytes += key;
    for (const std::string& tensor : tensors) bytes += tensor;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
    return bytes + data;
  }
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace outrider
