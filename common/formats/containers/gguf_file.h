// A GGUF file, opened for reading: its metadata and where its tensors lie. GGUF.md beside this file
// draws the bytes.
//
// Open() reads the header and nothing else, so a 10 GB model opens in milliseconds and costs the
// memory of its metadata. A file named <prefix>-00001-of-000NN.gguf opens its sibling
// shards too; they then look like one file.
//
// Nothing in the file is believed before it is checked: every count, length and offset is held
// against the bytes that are left, names must be unique and tensors must lie inside the file
// without overlap. Every error is one sentence that starts with the path and names the key or
// tensor.
//
// Strings and arrays are views into the header as it was read, which a file that shrinks does not take
// away, and live as long as the GgufFile. Threads: immutable after Open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/name_index.h"
#include "common/base/plain_file.h"
#include "common/formats/containers/gguf_value.h"
#include "common/formats/tensors/panels.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

struct GgufHeader;

struct GgufTensor {
  std::string_view name;
  TensorType type;
  std::vector<uint64_t> dims;  // dims[0] is contiguous; one to four of them
  uint32_t shard;              // for GgufFile::shard_path
  uint64_t offset;             // of its first byte in that shard's file
  uint64_t bytes;
  WeightLayout layout = WeightLayout::kRows;
};

class GgufFile {
 public:
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  // The same over bytes already in memory, which must outlive the result; `name` stands in for the
  // path in errors. A shard of a split model is refused: its siblings are files.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  // Of the first shard; metadata in file order.
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const GgufKeyValue> metadata() const { return metadata_; }

  // Of all shards, in file order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  uint64_t file_bytes() const;

  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  const std::string& shard_path(uint32_t shard) const;

  // The tensor's rows; DataLoss, with file, tensor and offset, when they cannot be had any more.
  // InvalidArgument for one in panels, which is for models' weights (models/model_file.h).
  absl::StatusOr<std::vector<std::byte>> ReadBytes(const GgufTensor& tensor) const;
  // The bytes from `offset` on of a shard into `out`, of a tensor's; `what` is for the error.
  absl::Status ReadAt(uint32_t shard, uint64_t offset, std::span<std::byte> out,
                      std::string_view what) const;

  // Null when absent.
  const GgufValue* Find(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // The value of `key` as the caller needs it. NotFound, naming file and key, when absent;
  // InvalidArgument when it is of another kind or out of range. Any integer width serves as an
  // integer, integers serve as floats; a NaN in the file comes back as one.
  absl::StatusOr<uint64_t> GetUint(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<uint64_t>> GetUints(std::string_view key) const;
  absl::StatusOr<std::vector<bool>> GetFlags(std::string_view key) const;  // 0 and 1 do, too
  absl::StatusOr<std::vector<int64_t>> GetInts(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(std::string_view key) const;

 private:
  struct Shard {
    std::string path;
    std::optional<PlainFile> file;          // empty when the bytes are the caller's:
    std::span<const std::byte> given = {};  // these
    std::vector<std::byte> header = {};     // the first of a file's

    uint64_t size() const { return file ? file->size() : given.size(); }
  };

  GgufFile() = default;
  static absl::StatusOr<GgufFile> Read(Shard shard);
  static absl::StatusOr<GgufHeader> ReadHeader(Shard& shard);

  // More than 1 when this is one file of several; checked to be the first of them.
  absl::StatusOr<uint64_t> SplitCount() const;
  absl::Status AddOtherShards(uint64_t count);
  absl::Status Absorb(GgufFile other);

  absl::StatusOr<const GgufValue*> Get(std::string_view key) const;
  absl::StatusOr<GgufArray> GetArray(std::string_view key) const;
  template <typename Element, typename Convert>
  absl::StatusOr<std::vector<Element>> GetNumbers(std::string_view key, Convert convert) const;

  // InvalidArgument about a key: "model.gguf: key "a.b" ...".
  template <typename... Parts>
  absl::Status Refuse(std::string_view key, const Parts&... parts) const;

  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  std::vector<Shard> shards_;
  std::vector<GgufKeyValue> metadata_;
  std::vector<GgufTensor> tensors_;
  NameIndex key_index_;
  NameIndex tensor_index_;
};

}  // namespace outrider
