// A GGUF file, opened for reading: its metadata and where its tensors lie. GGUF.md beside this file
// draws the bytes.
//
// Open() maps the file, reads the header and nothing else, so a 10 GB model opens in milliseconds
// and costs the memory of its metadata. A file named <prefix>-00001-of-000NN.gguf opens its sibling
// shards too; they then look like one file.
//
// Nothing in the file is believed before it is checked: every count, length and offset is held
// against the bytes that are left, names must be unique and tensors must lie inside the file
// without overlap. Every error is one sentence that starts with the path and names the key or
// tensor.
//
// Strings and arrays are views into the mapping and live as long as the GgufFile. Threads:
// immutable after Open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mapped_file.h"
#include "common/formats/tensor_type.h"

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
  std::span<const std::byte>
      bytes;  // strings: length-prefixed; everything else: little-endian elements
};

// One metadata value. Integers of every width become (u)int64, both floats double.
struct GgufValue {
  GgufValueType type;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> data;
};

struct GgufKeyValue {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  TensorType type;
  std::vector<uint64_t> dims;  // dims[0] is contiguous; one to four of them
  uint32_t shard;              // index into GgufFile::shards()
  uint64_t offset;             // of its first byte in that shard's file
  uint64_t bytes;
};

class GgufFile {
 public:
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  // The same over bytes already in memory, which must outlive the result; `name` stands in for the
  // path in errors. A split file cannot be read this way.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const GgufKeyValue> metadata() const {
    return metadata_;
  }  // of the first shard, in file order
  std::span<const GgufTensor> tensors() const { return tensors_; }  // of all shards, in file order
  uint32_t shard_count() const;
  const std::string& shard_path(uint32_t shard) const;
  uint64_t file_bytes() const;  // of all shards

  // The tensor's bytes in the mapping.
  std::span<const std::byte> Bytes(const GgufTensor& tensor) const;

  // Null when absent.
  const GgufValue* Find(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // The value of `key` as the caller needs it. NotFound, naming file and key, when absent;
  // InvalidArgument when it is of another kind or out of range. Any integer width serves as an
  // integer, integers serve as floats.
  absl::StatusOr<uint64_t> GetUint(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<uint64_t>> GetUints(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(std::string_view key) const;

 private:
  struct Shard;
  GgufFile() = default;

  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<std::shared_ptr<const Shard>> shards_;
  std::vector<GgufKeyValue> metadata_;
  std::vector<GgufTensor> tensors_;
  absl::flat_hash_map<std::string, uint32_t> key_index_;
  absl::flat_hash_map<std::string, uint32_t> tensor_index_;
};

}  // namespace outrider
