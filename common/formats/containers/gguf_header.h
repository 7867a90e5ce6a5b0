// Everything of one GGUF file that comes before its tensors' bytes, read and checked: the part of
// GgufFile that meets bytes from outside. One call, no state; GGUF.md draws what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/name_index.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_format.h"
#include "common/formats/containers/gguf_value.h"

namespace outrider {

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufKeyValue> metadata;
  std::vector<GgufTensor> tensors;  // shard 0, offsets from the beginning of the file
  NameIndex key_index;
  NameIndex tensor_index;
};

// `bytes` are the first of the file's `file_bytes`. OutOfRange when the header goes on beyond them,
// and somebody has to read more; other errors start with `name`. Views point into `bytes`.
absl::StatusOr<GgufHeader> ReadGgufHeader(std::span<const std::byte> bytes, uint64_t file_bytes,
                                          const std::string& name);

}  // namespace outrider
