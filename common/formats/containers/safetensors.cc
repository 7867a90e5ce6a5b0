#include "common/formats/containers/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/functional/function_ref.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/safetensors_json.h"

namespace outrider {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the reference implementation's own limit

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

absl::Status CheckSize(const SafetensorsHeaderEntry& entry, uint64_t data_bytes,
                       const std::string& name) {
  const std::string where = Concat(name, ": tensor ", Quote(entry.name));
  const absl::StatusOr<uint64_t> bytes = SafetensorsBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) return InvalidArgument(where, " ", Message(bytes.status()));
  if (entry.begin > entry.end) {
    return InvalidArgument(where, " ends at byte ", entry.end, " of the data, before it begins at ",
                           entry.begin);
  }
  if (entry.end > data_bytes) {
    return InvalidArgument(where, " needs bytes ", entry.begin, " to ", entry.end,
                           " of the data, which has ", data_bytes,
                           ": the file is cut short, fetch it again");
  }
  if (*bytes != entry.end - entry.begin) {
    return InvalidArgument(where, " takes ", *bytes, " bytes by dtype and shape, ",
                           entry.end - entry.begin, " by data_offsets");
  }
  return absl::OkStatus();
}

// `entries`, ordered by their bytes, must cover the data exactly.
absl::Status CheckContiguous(std::span<const SafetensorsHeaderEntry> entries, uint64_t data_bytes,
                             const std::string& name) {
  uint64_t end = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsHeaderEntry& entry = entries[i];
    if (entry.begin < end) {
      return InvalidArgument(name, ": tensors ", Quote(entries[i - 1].name), " and ",
                             Quote(entry.name), " overlap: both claim byte ", entry.begin,
                             " of the data");
    }
    if (entry.begin > end) {
      return InvalidArgument(name, ": tensor ", Quote(entry.name), " begins at byte ", entry.begin,
                             " of the data and leaves a gap from byte ", end,
                             ", which safetensors does not allow");
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    return InvalidArgument(name, ": has ", data_bytes - end,
                           " bytes after its last tensor, which safetensors does not allow");
  }
  return absl::OkStatus();
}

// A file of the same directory, whatever the index says.
bool IsPlainFileName(std::string_view file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

std::optional<uint64_t> SafetensorsElementBytes(std::string_view dtype) {
  struct Dtype {
    std::string_view name;
    uint64_t bytes;
  };
  static constexpr Dtype kDtypes[] = {{"F64", 8},     {"F32", 4},     {"F16", 2}, {"BF16", 2},
                                      {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4},
                                      {"I16", 2},     {"I8", 1},      {"U64", 8}, {"U32", 4},
                                      {"U16", 2},     {"U8", 1},      {"BOOL", 1}};
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> SafetensorsBytes(std::string_view dtype, std::span<const uint64_t> shape) {
  const std::optional<uint64_t> element_bytes = SafetensorsElementBytes(dtype);
  if (!element_bytes) return InvalidArgument("has dtype ", Quote(dtype), ", which is not known");
  uint64_t bytes = *element_bytes;
  for (const uint64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return InvalidArgument("has a shape larger than any file");
    }
  }
  return bytes;
}

namespace {

// Copies bytes of a file from an offset on.
using CopyBytes = absl::FunctionRef<absl::Status(uint64_t offset, std::span<std::byte> out)>;

// The JSON of a file of so many bytes.
absl::StatusOr<std::string> ReadHeaderText(uint64_t file_bytes, CopyBytes copy,
                                           const std::string& name) {
  if (file_bytes < kLengthBytes) {
    return InvalidArgument(name, ": is ", file_bytes,
                           " bytes long, a safetensors file begins with a length of ",
                           kLengthBytes);
  }
  uint64_t header_bytes = 0;
  OUTRIDER_RETURN_IF_ERROR(copy(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kLargestHeader) {
    return InvalidArgument(name, ": claims a header of ", header_bytes, " bytes, at most ",
                           kLargestHeader, " are allowed: it is not a safetensors file");
  }
  if (header_bytes > file_bytes - kLengthBytes) {
    return InvalidArgument(name, ": claims a header of ", header_bytes, " bytes, ",
                           file_bytes - kLengthBytes,
                           " are there: it is cut short, fetch it again");
  }
  std::string json(header_bytes, '\0');
  OUTRIDER_RETURN_IF_ERROR(copy(kLengthBytes, std::as_writable_bytes(std::span(json))));
  if (!json.starts_with('{')) {
    return InvalidArgument(name, ": has a header that does not begin with {");
  }
  return json;
}

absl::StatusOr<std::vector<SafetensorsTensor>> ReadTensors(uint64_t file_bytes, CopyBytes copy,
                                                           const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string json, ReadHeaderText(file_bytes, copy, name));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<SafetensorsHeaderEntry> entries,
                            ReadSafetensorsHeader(json, name));
  const uint64_t data_begin = kLengthBytes + json.size();
  const uint64_t data_bytes = file_bytes - data_begin;
  for (const SafetensorsHeaderEntry& entry : entries) {
    OUTRIDER_RETURN_IF_ERROR(CheckSize(entry, data_bytes, name));
  }
  std::ranges::stable_sort(entries, {}, [](const SafetensorsHeaderEntry& entry) {
    return std::pair(entry.begin, entry.end);
  });
  OUTRIDER_RETURN_IF_ERROR(CheckContiguous(entries, data_bytes, name));

  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(entries.size());
  for (SafetensorsHeaderEntry& entry : entries) {
    tensors.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape), 0,
                       data_begin + entry.begin, entry.end - entry.begin});
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::span<const std::byte> bytes,
                                                                const std::string& name) {
  return ReadTensors(
      bytes.size(),
      [&](uint64_t offset, std::span<std::byte> out) {
        std::ranges::copy(bytes.subspan(offset, out.size()), out.begin());
        return absl::OkStatus();
      },
      name);
}

absl::StatusOr<SafetensorsSet> SafetensorsSet::Open(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be opened below, with a reason
  std::string file = path;
  if (std::filesystem::is_directory(path, ignored)) {
    file = Concat(path, "/", kSingleFile);
    const std::string index_path = Concat(path, "/", kIndexFile);
    // Hugging Face's own loader prefers the single file where both are.
    if (!std::filesystem::exists(file, ignored)) {
      if (std::filesystem::exists(index_path, ignored)) return OpenSharded(path, index_path);
      return NotFound(path, ": holds neither ", kSingleFile, " nor ", kIndexFile);
    }
  }
  SafetensorsSet set;
  OUTRIDER_RETURN_IF_ERROR(set.AddShard(file));
  OUTRIDER_RETURN_IF_ERROR(set.IndexNames());
  return set;
}

absl::StatusOr<SafetensorsSet> SafetensorsSet::OpenSharded(const std::string& directory,
                                                           const std::string& index_path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string index, ReadWholeFile(index_path));
  if (index.size() > kLargestHeader) {
    return InvalidArgument(index_path, ": is ", index.size(), " bytes long, at most ",
                           kLargestHeader, " are allowed");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto file_of_tensor, ParseSafetensorsIndex(index, index_path));
  absl::btree_set<std::string> files;
  for (const auto& [tensor, file] : file_of_tensor) {
    if (!IsPlainFileName(file)) {
      return InvalidArgument(index_path, ": tensor ", Quote(tensor), " is said to be in ",
                             Quote(file), ", which is not a file of the same directory");
    }
    files.insert(file);
  }
  SafetensorsSet set;
  for (const std::string& file : files) {
    const absl::Status added = set.AddShard(Concat(directory, "/", file));
    if (absl::IsNotFound(added)) return Annotate(added, Concat(index_path, ": a shard is missing"));
    OUTRIDER_RETURN_IF_ERROR(added);
  }
  OUTRIDER_RETURN_IF_ERROR(set.IndexNames());
  for (const auto& [tensor, file] : file_of_tensor) {
    const SafetensorsTensor* found = set.Find(tensor);
    if (found == nullptr || set.shard_path(found->shard) != Concat(directory, "/", file)) {
      return InvalidArgument(index_path, ": tensor ", Quote(tensor), " is said to be in ", file,
                             ", which does not hold it");
    }
  }
  return set;
}

absl::Status SafetensorsSet::AddShard(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(PlainFile file, PlainFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<SafetensorsTensor> tensors,
                            ReadTensors(
                                file.size(),
                                [&](uint64_t offset, std::span<std::byte> out) {
                                  return file.Read(offset, out, "its header");
                                },
                                path));
  for (SafetensorsTensor& tensor : tensors) {
    tensor.shard = shard_count();
    tensors_.push_back(std::move(tensor));
  }
  shards_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status SafetensorsSet::IndexNames() {
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    const auto [entry, is_new] = index_.try_emplace(tensors_[i].name, i);
    if (!is_new) {
      return InvalidArgument(shard_path(tensors_[i].shard), ": tensor ", Quote(tensors_[i].name),
                             " is already in ", shard_path(tensors_[entry->second].shard));
    }
  }
  return absl::OkStatus();
}

const SafetensorsTensor* SafetensorsSet::Find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::StatusOr<std::vector<std::byte>> SafetensorsSet::ReadBytes(
    const SafetensorsTensor& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes);
  OUTRIDER_RETURN_IF_ERROR(
      ReadAt(tensor.shard, tensor.offset, bytes, Concat("tensor ", tensor.name)));
  return bytes;
}

absl::Status SafetensorsSet::ReadAt(uint32_t shard, uint64_t offset, std::span<std::byte> out,
                                    std::string_view what) const {
  return shards_[shard].Read(offset, out, what);
}

uint64_t SafetensorsSet::file_bytes() const {
  uint64_t total = 0;
  for (const PlainFile& shard : shards_) total += shard.size();
  return total;
}

}  // namespace outrider
