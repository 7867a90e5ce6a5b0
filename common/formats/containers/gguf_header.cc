#include "common/formats/containers/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_format.h"

namespace outrider {
namespace {

constexpr uint64_t kHeaderBytes = 24;
constexpr uint32_t kMostDimensions = 4;

// The least an entry can take: a name of one byte, and a u8 value or one dimension.
constexpr uint64_t kSmallestKeyValue = 8 + 1 + 4 + 1;
constexpr uint64_t kSmallestTensorInfo = 8 + 1 + 4 + 8 + 4 + 8;

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, uint64_t file_bytes, const std::string& name)
      : bytes_(bytes), file_bytes_(file_bytes), name_(name) {}

  absl::StatusOr<GgufHeader> Read() {
    OUTRIDER_RETURN_IF_ERROR(ReadVersion());
    OUTRIDER_RETURN_IF_ERROR(ReadCounts());
    OUTRIDER_RETURN_IF_ERROR(ReadMetadata());
    OUTRIDER_RETURN_IF_ERROR(ReadAlignment());
    OUTRIDER_RETURN_IF_ERROR(ReadTensorInfos());
    OUTRIDER_RETURN_IF_ERROR(PlaceTensors());
    OUTRIDER_RETURN_IF_ERROR(CheckNoOverlap());
    return std::move(header_);
  }

 private:
  // What is being read, for errors: `key 3 of 20` until its name is known, then `key "a.b"`.
  struct Item {
    std::string_view kind;
    uint64_t index = 0;
    uint64_t count = 0;
    std::string_view name = {};
  };

  absl::Status ReadVersion();
  absl::Status ReadCounts();
  absl::Status ReadMetadata();
  absl::Status ReadValue(GgufValueType type, GgufValue& value);
  absl::Status ReadArray(GgufValue& value);
  absl::Status CheckBools(std::span<const std::byte> values) const;
  absl::Status ReadAlignment();
  absl::Status ReadTensorInfos();
  absl::Status ReadTensorInfo(GgufTensor& tensor);
  absl::Status PlaceTensors();
  absl::Status CheckNoOverlap() const;

  // The next `count` bytes of the file.
  absl::Status Take(uint64_t count, std::span<const std::byte>& taken);
  absl::Status ReadString(std::string_view& text);
  absl::Status ReadValueType(GgufValueType& type);
  template <typename T>
  absl::Status ReadNumber(T& value);

  uint64_t left() const { return file_bytes_ - position_; }

  // "model.gguf: key "a.b" ..."
  template <typename... Parts>
  absl::Status Refuse(const Parts&... parts) const {
    const std::string where =
        item_.name.empty() ? Concat(item_.index + 1, " of ", item_.count) : Quote(item_.name);
    return InvalidArgument(name_, ": ", item_.kind, " ", where, " ", parts...);
  }

  const std::span<const std::byte> bytes_;  // the first of
  const uint64_t file_bytes_;
  const std::string& name_;
  uint64_t position_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  Item item_;
  GgufHeader header_;
};

absl::Status HeaderReader::Take(uint64_t count, std::span<const std::byte>& taken) {
  if (count > left()) {
    return Refuse("needs ", count, " bytes at byte ", position_, ", the file has ", left(),
                  " left: it is cut short or damaged, fetch it again");
  }
  if (count > bytes_.size() - position_) return absl::OutOfRangeError("more has to be read");
  taken = bytes_.subspan(position_, count);
  position_ += count;
  return absl::OkStatus();
}

template <typename T>
absl::Status HeaderReader::ReadNumber(T& value) {
  std::span<const std::byte> taken;
  OUTRIDER_RETURN_IF_ERROR(Take(sizeof(T), taken));
  std::memcpy(&value, taken.data(), sizeof(T));
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadString(std::string_view& text) {
  uint64_t length = 0;
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(length));
  if (length > kGgufLargestString) {
    return Refuse("holds a string of ", length, " bytes, at most ", kGgufLargestString,
                  " are allowed: the file is damaged, fetch it again");
  }
  std::span<const std::byte> taken;
  OUTRIDER_RETURN_IF_ERROR(Take(length, taken));
  text = {reinterpret_cast<const char*>(taken.data()), taken.size()};
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadVersion() {
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  const std::string_view magic = text.substr(0, kGgufMagic.size());
  if (magic != kGgufMagic) {
    return InvalidArgument(name_, ": is not a GGUF file: it begins with ", Quote(magic),
                           " instead of \"GGUF\"");
  }
  if (bytes_.size() < kHeaderBytes) {
    return InvalidArgument(name_, ": is ", bytes_.size(), " bytes long, a GGUF header has ",
                           kHeaderBytes, ": it is cut short, fetch it again");
  }
  position_ = kGgufMagic.size();
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(header_.version));
  const uint32_t version = header_.version;
  if (version == 2 || version == 3) return absl::OkStatus();
  if (version == 1) {
    return InvalidArgument(name_, ": is GGUF version 1, which nothing reads any more: convert the ",
                           "original model again");
  }
  if (version != 0 && (version & 0xffff) == 0) {
    return InvalidArgument(name_, ": is a big-endian GGUF file, only little-endian ones are read: ",
                           "turn it round with gguf-convert-endian from the Python package gguf");
  }
  return InvalidArgument(name_, ": is GGUF version ", version, ", only 2 and 3 are read");
}

absl::Status HeaderReader::ReadCounts() {
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(tensor_count_));
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(key_count_));
  if (key_count_ > kGgufMostKeys || key_count_ > left() / kSmallestKeyValue) {
    return InvalidArgument(name_, ": claims ", key_count_, " metadata keys, more than its ",
                           file_bytes_, " bytes can hold or any model has: it is damaged");
  }
  if (tensor_count_ > kGgufMostTensors || tensor_count_ > left() / kSmallestTensorInfo) {
    return InvalidArgument(name_, ": claims ", tensor_count_, " tensors, more than its ",
                           file_bytes_, " bytes can hold or any model has: it is damaged");
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadMetadata() {
  for (uint64_t i = 0; i < key_count_; ++i) {
    item_ = {"key", i, key_count_};
    GgufKeyValue entry;
    OUTRIDER_RETURN_IF_ERROR(ReadString(entry.key));
    if (entry.key.empty()) return Refuse("has an empty name");
    if (entry.key.size() > kGgufLargestKey) {
      return Refuse("has a name of ", entry.key.size(), " bytes, at most ", kGgufLargestKey,
                    " are allowed");
    }
    item_.name = entry.key;
    if (!header_.key_index.try_emplace(entry.key, static_cast<uint32_t>(i)).second) {
      return Refuse("appears twice");
    }
    GgufValueType type;
    OUTRIDER_RETURN_IF_ERROR(ReadValueType(type));
    OUTRIDER_RETURN_IF_ERROR(ReadValue(type, entry.value));
    header_.metadata.push_back(entry);
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadValueType(GgufValueType& type) {
  uint32_t id = 0;
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(id));
  const std::optional<GgufValueType> known = GgufValueTypeFromId(id);
  if (!known) return Refuse("has a value of type ", id, ", which GGUF does not define");
  type = *known;
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadValue(GgufValueType type, GgufValue& value) {
  if (type == GgufValueType::kArray) return ReadArray(value);
  value.type = type;
  if (type == GgufValueType::kString) {
    std::string_view text;
    OUTRIDER_RETURN_IF_ERROR(ReadString(text));
    value.data = text;
    return absl::OkStatus();
  }
  std::span<const std::byte> taken;
  OUTRIDER_RETURN_IF_ERROR(Take(FixedBytes(type), taken));
  if (type == GgufValueType::kBool) OUTRIDER_RETURN_IF_ERROR(CheckBools(taken));
  value = DecodeFixed(type, taken.data());
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadArray(GgufValue& value) {
  GgufArray array;
  OUTRIDER_RETURN_IF_ERROR(ReadValueType(array.type));
  if (array.type == GgufValueType::kArray) {
    return Refuse("is an array of arrays, which no model needs and llama.cpp refuses too");
  }
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(array.count));
  if (array.count > kGgufLargestArray) {
    return Refuse("claims ", array.count, " elements, at most ", kGgufLargestArray,
                  " are allowed: the file is damaged, fetch it again");
  }
  if (array.type == GgufValueType::kString) {
    const uint64_t begin = position_;
    std::string_view text;
    for (uint64_t i = 0; i < array.count; ++i) OUTRIDER_RETURN_IF_ERROR(ReadString(text));
    array.bytes = bytes_.subspan(begin, position_ - begin);
  } else {
    OUTRIDER_RETURN_IF_ERROR(Take(array.count * FixedBytes(array.type), array.bytes));
    if (array.type == GgufValueType::kBool) OUTRIDER_RETURN_IF_ERROR(CheckBools(array.bytes));
  }
  value = {GgufValueType::kArray, array};
  return absl::OkStatus();
}

absl::Status HeaderReader::CheckBools(std::span<const std::byte> values) const {
  for (const std::byte value : values) {
    if (value > std::byte{1}) {
      return Refuse("holds a bool stored as ", std::to_integer<int>(value),
                    ", only 0 and 1 are allowed");
    }
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadAlignment() {
  const auto found = header_.key_index.find(kGgufAlignmentKey);
  if (found == header_.key_index.end()) return absl::OkStatus();
  item_ = {"key", found->second, key_count_, kGgufAlignmentKey};
  const GgufValue& value = header_.metadata[found->second].value;
  if (value.type != GgufValueType::kUint32) {
    return Refuse("is of type ", Name(value.type), ", it must be u32");
  }
  const uint64_t alignment = std::get<uint64_t>(value.data);
  if (!std::has_single_bit(alignment) || alignment < kGgufSmallestAlignment ||
      alignment > kGgufLargestAlignment) {
    return Refuse("is ", alignment, ", it must be a power of two from ", kGgufSmallestAlignment,
                  " to ", kGgufLargestAlignment);
  }
  header_.alignment = alignment;
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadTensorInfos() {
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    item_ = {"tensor", i, tensor_count_};
    GgufTensor tensor;
    OUTRIDER_RETURN_IF_ERROR(ReadTensorInfo(tensor));
    if (!header_.tensor_index.try_emplace(tensor.name, static_cast<uint32_t>(i)).second) {
      return Refuse("appears twice");
    }
    header_.tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadTensorInfo(GgufTensor& tensor) {
  OUTRIDER_RETURN_IF_ERROR(ReadString(tensor.name));
  if (tensor.name.empty()) return Refuse("has an empty name");
  item_.name = tensor.name;
  if (tensor.name.size() > kGgufLargestTensorName) {
    return Refuse("has a name of ", tensor.name.size(), " bytes, at most ", kGgufLargestTensorName,
                  " are allowed");
  }
  uint32_t dimension_count = 0;
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(dimension_count));
  if (dimension_count == 0 || dimension_count > kMostDimensions) {
    return Refuse("has ", dimension_count, " dimensions, expected 1 to ", kMostDimensions);
  }
  tensor.dims.resize(dimension_count);
  for (uint64_t& dim : tensor.dims) OUTRIDER_RETURN_IF_ERROR(ReadNumber(dim));
  uint32_t type_id = 0;
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(type_id));
  OUTRIDER_RETURN_IF_ERROR(ReadNumber(tensor.offset));

  const bool in_panels = type_id >= kGgufPanelTypes;
  const std::optional<TensorType> type =
      TensorTypeFromId(in_panels ? type_id - kGgufPanelTypes : type_id);
  if (!type) {
    return Refuse("is stored in type ", type_id, ", which GGUF does not define or no longer uses");
  }
  tensor.type = *type;
  tensor.layout = in_panels ? WeightLayout::kPanels : WeightLayout::kRows;
  const absl::StatusOr<uint64_t> tensor_bytes =
      StoredBytes(tensor.layout, tensor.type, tensor.dims);
  if (!tensor_bytes.ok()) return Refuse(Message(tensor_bytes.status()));
  tensor.bytes = *tensor_bytes;
  tensor.shard = 0;
  return absl::OkStatus();
}

// Turns offsets in the data section into offsets in the file. A file without tensors may end before
// its data section would begin.
absl::Status HeaderReader::PlaceTensors() {
  const uint64_t alignment = header_.alignment;
  const uint64_t data_begin = AlignUp(position_, alignment);
  const uint64_t data_bytes = file_bytes_ - std::min(data_begin, file_bytes_);
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    GgufTensor& tensor = header_.tensors[i];
    item_ = {"tensor", i, tensor_count_, tensor.name};
    if (tensor.offset % alignment != 0) {
      return Refuse("lies at offset ", tensor.offset,
                    " of the data section, which is not a multiple of the alignment ", alignment);
    }
    const uint64_t present = data_bytes - std::min(tensor.offset, data_bytes);
    if (tensor.bytes > present) {
      return Refuse("needs ", tensor.bytes, " bytes at offset ", tensor.offset,
                    " of the data section, ", present,
                    " are there: the file is cut short, fetch it again");
    }
    tensor.offset += data_begin;
  }
  return absl::OkStatus();
}

// Gaps and any order are fine, as they are to gguf-py; bytes that belong to two tensors are not.
absl::Status HeaderReader::CheckNoOverlap() const {
  std::vector<const GgufTensor*> by_offset;
  by_offset.reserve(header_.tensors.size());
  for (const GgufTensor& tensor : header_.tensors) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, {}, [](const GgufTensor* tensor) {
    return std::pair(tensor->offset, tensor->bytes);
  });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const GgufTensor& before = *by_offset[i - 1];
    const GgufTensor& after = *by_offset[i];
    if (before.offset + before.bytes > after.offset) {
      return InvalidArgument(name_, ": tensors ", Quote(before.name), " and ", Quote(after.name),
                             " overlap: both claim byte ", after.offset, " of the file");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufHeader> ReadGgufHeader(std::span<const std::byte> bytes, uint64_t file_bytes,
                                          const std::string& name) {
  return HeaderReader(bytes, file_bytes, name).Read();
}

}  // namespace outrider
