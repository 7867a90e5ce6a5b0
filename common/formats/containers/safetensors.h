// Safetensors: an 8-byte little-endian length, that much JSON {name: {dtype, shape, data_offsets}},
// then the bytes.
//
// SafetensorsSet opens one such file, or what a Hugging Face directory holds: model.safetensors
// alone, or the shards that model.safetensors.index.json lists. The JSON is held to the format's
// own rules (offsets inside the file, no overlap, no gap, sizes that match dtype and shape, no
// duplicate names) before any tensor is handed out. Errors are one sentence that starts with the
// path and names the tensor.
//
// Threads: immutable after Open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/name_index.h"
#include "common/base/plain_file.h"

namespace outrider {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;            // "F32", "BF16", ... as the file spells it
  std::vector<uint64_t> shape;  // outermost first, as PyTorch prints it; may be empty (a scalar)
  uint32_t shard;               // for SafetensorsSet::shard_path; 0 in a single file
  uint64_t offset;              // of its first byte in the file
  uint64_t bytes;
};

// Bytes of one element of `dtype`; empty for a dtype this program does not know.
std::optional<uint64_t> SafetensorsElementBytes(std::string_view dtype);

// Bytes of a whole tensor. InvalidArgument, "has dtype ...", when the dtype is not known or the
// product does not fit.
absl::StatusOr<uint64_t> SafetensorsBytes(std::string_view dtype, std::span<const uint64_t> shape);

// The tensors of one file held in memory, in the order of their bytes; `name` stands in for the
// path in errors.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::span<const std::byte> bytes,
                                                                const std::string& name);

// The text of a model.safetensors.index.json: which file of its directory holds which tensor.
absl::StatusOr<absl::btree_map<std::string, std::string>> ParseSafetensorsIndex(
    std::string_view json, const std::string& name);

class SafetensorsSet {
 public:
  // `path`: a .safetensors file, or a directory.
  static absl::StatusOr<SafetensorsSet> Open(const std::string& path);

  SafetensorsSet(SafetensorsSet&&) = default;
  SafetensorsSet& operator=(SafetensorsSet&&) = default;

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  const SafetensorsTensor* Find(std::string_view name) const;  // null when absent

  // The tensor's bytes; DataLoss, with file, tensor and offset, when they cannot be had any more.
  absl::StatusOr<std::vector<std::byte>> ReadBytes(const SafetensorsTensor& tensor) const;
  // The bytes from `offset` on of a shard into `out`, of a tensor's; `what` is for the error.
  absl::Status ReadAt(uint32_t shard, uint64_t offset, std::span<std::byte> out,
                      std::string_view what) const;

  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  const std::string& shard_path(uint32_t shard) const { return shards_[shard].path(); }
  uint64_t file_bytes() const;

 private:
  SafetensorsSet() = default;
  static absl::StatusOr<SafetensorsSet> OpenSharded(const std::string& directory,
                                                    const std::string& index_path);

  absl::Status AddShard(const std::string& path);
  absl::Status IndexNames();

  std::vector<PlainFile> shards_;
  std::vector<SafetensorsTensor> tensors_;
  NameIndex index_;  // of the names in tensors_, which therefore no longer changes
};

// One tensor to be written; `bytes` stays the caller's until the call returns.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes `path` atomically (partial file, fsync, rename). Tensors of wide elements come first, so
// that all are aligned, otherwise in the order given. InvalidArgument for a dtype nobody knows,
// sizes that do not match dtype and shape, and names given twice or not in UTF-8.
absl::Status WriteSafetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                              const absl::btree_map<std::string, std::string>& metadata);

}  // namespace outrider
