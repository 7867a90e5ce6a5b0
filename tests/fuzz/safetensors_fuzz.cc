// Any bytes at all are a safetensors file, an index of shards, or an error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/check.h"
#include "common/formats/containers/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto tensors = outrider::ParseSafetensors(bytes, "fuzzed.safetensors");
  if (tensors.ok()) {
    uint64_t total = 0;
    for (const outrider::SafetensorsTensor& tensor : *tensors) {
      OUTRIDER_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
                     "tensors lie inside the file");
      OUTRIDER_CHECK(*outrider::SafetensorsBytes(tensor.dtype, tensor.shape) == tensor.bytes,
                     "a tensor is as large as its dtype and shape say");
      total += tensor.bytes;
    }
    OUTRIDER_CHECK(total <= size, "no byte belongs to two tensors");
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)outrider::ParseSafetensorsIndex(text, "fuzzed.index.json");
  return 0;
}
