// Safetensors: an 8-byte little-endian length, that much JSON {name: {dtype, shape, data_offsets}},
// then the bytes.
//
// SafetensorsFile opens one file; SafetensorsSet opens what a Hugging Face directory holds:
// model.safetensors alone, or the shards that model.safetensors.index.json lists. The JSON is held
// to the format's own rules (offsets inside the file, no overlap, no gap, sizes that match dtype
// and shape, no duplicate names) before any tensor is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mapped_file.h"
#include "common/formats/tensor_type.h"

namespace outrider {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;            // "F32", "BF16", ... as the file spells it
  std::vector<uint64_t> shape;  // outermost first, as PyTorch prints it; may be empty (a scalar)
  uint32_t shard;               // index into SafetensorsSet::shard_path; 0 in a single file
  uint64_t offset;              // of its first byte in the file
  uint64_t bytes;
};

// The tensors of one file held in memory; `name` stands in for the path in errors.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::span<const std::byte> bytes,
                                                                const std::string& name);

class SafetensorsSet {
 public:
  // `path`: a .safetensors file, or a directory.
  static absl::StatusOr<SafetensorsSet> Open(const std::string& path);

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  const SafetensorsTensor* Find(std::string_view name) const;
  std::span<const std::byte> Bytes(const SafetensorsTensor& tensor) const;
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  const std::string& shard_path(uint32_t shard) const;
  uint64_t file_bytes() const;

 private:
  SafetensorsSet() = default;

  std::vector<MappedFile> shards_;
  std::vector<SafetensorsTensor> tensors_;
  absl::flat_hash_map<std::string, uint32_t> index_;
};

// One tensor to be written; `bytes` stays the caller's until the call returns.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes `path` atomically (partial file, fsync, rename). InvalidArgument for sizes that do not
// match dtype and shape, or a name given twice.
absl::Status WriteSafetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                              const absl::btree_map<std::string, std::string>& metadata);

}  // namespace outrider
