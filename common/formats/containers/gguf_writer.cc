#include "common/formats/containers/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/atomic_file.h"
#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"

namespace outrider {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

constexpr uint32_t kVersion = 3;
// Where a data section may end: far below where adding padding could overflow.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

template <typename T>
void Append(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendString(std::string& out, std::string_view text) {
  Append<uint64_t>(out, text.size());
  out.append(text);
}

template <typename T>
std::string Encoded(T number) {
  std::string out;
  Append(out, number);
  return out;
}

std::string EncodedArray(GgufValueType type, uint64_t count, std::span<const std::byte> elements) {
  std::string out;
  Append(out, static_cast<uint32_t>(type));
  Append(out, count);
  out.append(reinterpret_cast<const char*>(elements.data()), elements.size());
  return out;
}

// The inverse of DecodeFixed: the low bytes of a little-endian integer are the narrower integer.
std::string EncodedFixed(const GgufValue& value) {
  uint64_t bits = 0;
  if (const auto* number = std::get_if<uint64_t>(&value.data)) {
    bits = *number;
  } else if (const auto* signed_number = std::get_if<int64_t>(&value.data)) {
    bits = static_cast<uint64_t>(*signed_number);
  } else if (const auto* truth = std::get_if<bool>(&value.data)) {
    bits = *truth ? 1 : 0;
  } else if (value.type == GgufValueType::kFloat32) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::get<double>(value.data)));
  } else {
    bits = std::bit_cast<uint64_t>(std::get<double>(value.data));
  }
  std::string out = Encoded(bits);
  out.resize(FixedBytes(value.type));
  return out;
}

}  // namespace

// Everything that goes in front of the data section, in the making.
struct GgufWriter::Pending {
  struct Entry {
    std::string key;
    GgufValueType type;
    std::string payload;
    uint64_t payload_at = 0;  // in the file, when it has been encoded
  };
  struct Tensor {
    std::string name;
    uint32_t type_id;
    std::vector<uint64_t> dims;
    uint64_t offset;  // in the data section
    uint64_t bytes;
  };

  void Set(std::string_view key, GgufValueType type, std::string payload) {
    if (key == kGgufAlignmentKey || key.starts_with("split.")) return;
    if (key.empty() || key.size() > kGgufLargestKey) {
      Object(key, "has a name of ", key.size(), " bytes, expected 1 to ", kGgufLargestKey);
      return;
    }
    Put(key, type, std::move(payload));
  }

  void Put(std::string_view key, GgufValueType type, std::string payload) {
    const auto [found, is_new] = place_of_key.try_emplace(std::string(key), entries.size());
    if (is_new) {
      entries.push_back({.key = std::string(key), .type = type, .payload = std::move(payload)});
    } else {
      entries[found->second].type = type;
      entries[found->second].payload = std::move(payload);
    }
  }

  // Remembers the first thing wrong with the metadata, for Begin() to report.
  template <typename... Parts>
  void Object(std::string_view key, const Parts&... parts) {
    if (problem.ok()) problem = InvalidArgument("key ", Quote(key), " ", parts...);
  }

  template <typename T>
  void SetNumbers(std::string_view key, GgufValueType type, std::span<const T> values) {
    if (values.size() > kGgufLargestArray) {
      Object(key, "has ", values.size(), " elements, at most ", kGgufLargestArray, " are allowed");
      return;
    }
    Set(key, GgufValueType::kArray, EncodedArray(type, values.size(), std::as_bytes(values)));
  }

  std::string Encode();

  uint64_t alignment = 0;
  std::vector<Entry> entries;
  absl::flat_hash_map<std::string, size_t> place_of_key;
  std::vector<Tensor> tensors;
  absl::flat_hash_set<std::string> tensor_names;
  uint64_t data_bytes = 0;  // of the tensors added, each padded
  absl::Status problem;
};

// The file up to its first tensor, padding included.
std::string GgufWriter::Pending::Encode() {
  std::string out(kGgufMagic);
  Append(out, kVersion);
  Append<uint64_t>(out, tensors.size());
  Append<uint64_t>(out, entries.size());
  for (Entry& entry : entries) {
    AppendString(out, entry.key);
    Append(out, static_cast<uint32_t>(entry.type));
    entry.payload_at = out.size();
    out += entry.payload;
  }
  for (const Tensor& tensor : tensors) {
    AppendString(out, tensor.name);
    Append(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) Append(out, dim);
    Append(out, tensor.type_id);
    Append(out, tensor.offset);
  }
  out.resize(AlignUp(out.size(), alignment), '\0');
  return out;
}

struct GgufWriter::Output {
  AtomicFile file;
  std::vector<Pending::Tensor> tensors;
  absl::flat_hash_map<std::string, uint64_t> numbers_at;  // of every u64, where its value stands
  std::string padding;       // as many zeros as there can be between two tensors
  size_t current = 0;        // the tensor that is being written
  uint64_t bytes_of_it = 0;  // how many of its bytes are
};

GgufWriter::GgufWriter(uint64_t alignment) : pending_(std::make_unique<Pending>()) {
  OUTRIDER_CHECK(std::has_single_bit(alignment) && alignment >= kGgufSmallestAlignment &&
                     alignment <= kGgufLargestAlignment,
                 "an alignment is one a reader accepts");
  pending_->alignment = alignment;
}

GgufWriter::~GgufWriter() = default;

GgufWriter::Pending& GgufWriter::pending() {
  OUTRIDER_CHECK(pending_ != nullptr, "metadata and tensors are added before Begin()");
  return *pending_;
}

void GgufWriter::AddUint32(std::string_view key, uint32_t value) {
  pending().Set(key, GgufValueType::kUint32, Encoded(value));
}

void GgufWriter::AddUint64(std::string_view key, uint64_t value) {
  pending().Set(key, GgufValueType::kUint64, Encoded(value));
}

void GgufWriter::AddFloat32(std::string_view key, float value) {
  pending().Set(key, GgufValueType::kFloat32, Encoded(value));
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  pending().Set(key, GgufValueType::kBool, Encoded<uint8_t>(value ? 1 : 0));
}

void GgufWriter::AddString(std::string_view key, std::string_view value) {
  if (value.size() > kGgufLargestString) {
    pending().Object(key, "is a string of ", value.size(), " bytes, at most ", kGgufLargestString,
                     " are allowed");
    return;
  }
  std::string payload;
  AppendString(payload, value);
  pending().Set(key, GgufValueType::kString, std::move(payload));
}

void GgufWriter::AddStrings(std::string_view key, std::span<const std::string> values) {
  std::string elements;
  for (const std::string& value : values) {
    if (value.size() > kGgufLargestString) {
      pending().Object(key, "holds a string of ", value.size(), " bytes, at most ",
                       kGgufLargestString, " are allowed");
      return;
    }
    AppendString(elements, value);
  }
  if (values.size() > kGgufLargestArray) {
    pending().Object(key, "has ", values.size(), " elements, at most ", kGgufLargestArray,
                     " are allowed");
    return;
  }
  pending().Set(
      key, GgufValueType::kArray,
      EncodedArray(GgufValueType::kString, values.size(), std::as_bytes(std::span(elements))));
}

void GgufWriter::AddUint32s(std::string_view key, std::span<const uint32_t> values) {
  pending().SetNumbers(key, GgufValueType::kUint32, values);
}

void GgufWriter::AddBools(std::string_view key, const std::vector<bool>& values) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  pending().SetNumbers(key, GgufValueType::kBool, std::span<const uint8_t>(bytes));
}

void GgufWriter::AddInt32s(std::string_view key, std::span<const int32_t> values) {
  pending().SetNumbers(key, GgufValueType::kInt32, values);
}

void GgufWriter::AddFloat32s(std::string_view key, std::span<const float> values) {
  pending().SetNumbers(key, GgufValueType::kFloat32, values);
}

void GgufWriter::AddBytes(std::string_view key, std::string_view values) {
  pending().SetNumbers(key, GgufValueType::kUint8, std::span(values));
}

void GgufWriter::AddCopy(std::string_view key, const GgufValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value.data)) {
    AddString(key, *text);
  } else if (const auto* array = std::get_if<GgufArray>(&value.data)) {
    pending().Set(key, value.type, EncodedArray(array->type, array->count, array->bytes));
  } else {
    pending().Set(key, value.type, EncodedFixed(value));
  }
}

absl::Status GgufWriter::AddTensor(std::string_view name, TensorType type,
                                   std::span<const uint64_t> dims, WeightLayout layout) {
  Pending& header = pending();
  if (name.empty() || name.size() > kGgufLargestTensorName) {
    return InvalidArgument("tensor ", Quote(name), " has a name of ", name.size(),
                           " bytes, expected 1 to ", kGgufLargestTensorName);
  }
  const absl::StatusOr<uint64_t> bytes = StoredBytes(layout, type, dims);
  if (!bytes.ok()) {
    return InvalidArgument("tensor ", Quote(name), " ", Message(bytes.status()));
  }
  if (*bytes > kMostBytes || header.data_bytes > kMostBytes - *bytes) {
    return InvalidArgument("tensor ", Quote(name), " makes the file larger than any can be");
  }
  if (header.tensors.size() == kGgufMostTensors) {
    return InvalidArgument("tensor ", Quote(name), " is one more than the ", kGgufMostTensors,
                           " a file may hold");
  }
  if (!header.tensor_names.insert(std::string(name)).second) {
    return InvalidArgument("tensor ", Quote(name), " is added twice");
  }
  const uint32_t type_id =
      static_cast<uint32_t>(type) + (layout == WeightLayout::kPanels ? kGgufPanelTypes : 0);
  header.tensors.push_back(
      {std::string(name), type_id, {dims.begin(), dims.end()}, header.data_bytes, *bytes});
  header.data_bytes += AlignUp(*bytes, header.alignment);
  return absl::OkStatus();
}

absl::Status GgufWriter::Begin(const std::string& path) {
  Pending& header = pending();
  OUTRIDER_RETURN_IF_ERROR(Annotate(header.problem, path));
  if (header.entries.size() >= kGgufMostKeys) {
    return InvalidArgument(path, ": has ", header.entries.size(),
                           " metadata keys, a file holds fewer than ", kGgufMostKeys);
  }
  if (header.alignment != kGgufDefaultAlignment) {
    header.Put(kGgufAlignmentKey, GgufValueType::kUint32,
               Encoded(static_cast<uint32_t>(header.alignment)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::string encoded = header.Encode();
  OUTRIDER_RETURN_IF_ERROR(file.Append(encoded));
  absl::flat_hash_map<std::string, uint64_t> numbers_at;
  for (const Pending::Entry& entry : header.entries) {
    if (entry.type == GgufValueType::kUint64) numbers_at.emplace(entry.key, entry.payload_at);
  }
  output_ =
      std::make_unique<Output>(Output{std::move(file), std::move(header.tensors),
                                      std::move(numbers_at), std::string(header.alignment, '\0')});
  pending_.reset();
  return absl::OkStatus();
}

absl::Status GgufWriter::Write(std::span<const std::byte> bytes) {
  OUTRIDER_CHECK(output_ != nullptr, "bytes are written between Begin() and Commit()");
  Output& out = *output_;
  while (!bytes.empty()) {
    if (out.current == out.tensors.size()) {
      return InvalidArgument(out.file.path(), ": was given ", bytes.size(),
                             " bytes beyond those of its ", out.tensors.size(), " tensors");
    }
    const uint64_t tensor_bytes = out.tensors[out.current].bytes;
    const size_t count = std::min<uint64_t>(bytes.size(), tensor_bytes - out.bytes_of_it);
    OUTRIDER_RETURN_IF_ERROR(out.file.Append(bytes.first(count)));
    bytes = bytes.subspan(count);
    out.bytes_of_it += count;
    if (out.bytes_of_it < tensor_bytes) break;
    // The last tensor is padded too: some readers map the data section as whole aligned pieces.
    const uint64_t padding_bytes = AlignUp(tensor_bytes, out.padding.size()) - tensor_bytes;
    OUTRIDER_RETURN_IF_ERROR(
        out.file.Append(std::string_view(out.padding).substr(0, padding_bytes)));
    ++out.current;
    out.bytes_of_it = 0;
  }
  return absl::OkStatus();
}

absl::Status GgufWriter::SetLate(std::string_view key, uint64_t value) {
  OUTRIDER_CHECK(output_ != nullptr, "late numbers are set between Begin() and Commit()");
  return output_->file.Overwrite(output_->numbers_at.at(std::string(key)),
                                 std::as_bytes(std::span(&value, 1)));
}

absl::Status GgufWriter::Commit() {
  OUTRIDER_CHECK(output_ != nullptr, "Commit() comes once, after Begin()");
  Output& out = *output_;
  if (out.current < out.tensors.size()) {
    const Pending::Tensor& tensor = out.tensors[out.current];
    return InvalidArgument(out.file.path(), ": tensor ", Quote(tensor.name), " was given ",
                           out.bytes_of_it, " of its ", tensor.bytes, " bytes");
  }
  OUTRIDER_RETURN_IF_ERROR(out.file.Commit());
  output_.reset();
  return absl::OkStatus();
}

}  // namespace outrider
