#include "common/formats/containers/gguf_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_format.h"
#include "common/formats/containers/gguf_header.h"

namespace outrider {
namespace {

constexpr uint64_t kHeaderBytesFirst = uint64_t{1} << 20;
constexpr uint64_t kHeaderBytesMax = uint64_t{1} << 30;

std::string FiveDigits(uint64_t number) {
  const std::string digits = Concat(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

// How the name of shard `number`, counted from 0, of `count` ends.
std::string ShardSuffix(uint64_t number, uint64_t count) {
  return Concat("-", FiveDigits(number + 1), "-of-", FiveDigits(count), ".gguf");
}

// The path of the first shard, given that of another; empty when it is not named as shards are.
std::optional<std::string> FirstShardPath(const std::string& path, uint64_t number,
                                          uint64_t count) {
  const std::string suffix = ShardSuffix(number, count);
  if (!path.ends_with(suffix)) return std::nullopt;
  return path.substr(0, path.size() - suffix.size()) + ShardSuffix(0, count);
}

absl::StatusOr<float> ToFloat32(const GgufValue& value) {
  OUTRIDER_ASSIGN_OR_RETURN(const double number, ToFloat(value));
  if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max()) {
    return InvalidArgument("is ", number, ", which is too large for a 32-bit float");
  }
  return static_cast<float>(number);
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(PlainFile opened, PlainFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(GgufFile file, Read({path, std::move(opened)}));
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t count, file.SplitCount());
  if (count > 1) OUTRIDER_RETURN_IF_ERROR(file.AddOtherShards(count));
  return file;
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes,
                                         const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(GgufFile file, Read({name, std::nullopt, bytes}));
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t count, file.SplitCount());
  if (count > 1) {
    return InvalidArgument(name, ": is one of the ", count,
                           " files of a split model, which can only be opened by path");
  }
  return file;
}

// How long a file's header is, only reading it tells: what is read of the file doubles until it is all
// there.
absl::StatusOr<GgufHeader> GgufFile::ReadHeader(Shard& shard) {
  const uint64_t file_bytes = shard.size();
  if (!shard.file) return ReadGgufHeader(shard.given, file_bytes, shard.path);
  for (uint64_t count = kHeaderBytesFirst; count <= kHeaderBytesMax; count *= 2) {
    const size_t before = shard.header.size();
    shard.header.resize(std::min(count, file_bytes));
    OUTRIDER_RETURN_IF_ERROR(
        shard.file->Read(before, std::span(shard.header).subspan(before), "its header"));
    absl::StatusOr<GgufHeader> header = ReadGgufHeader(shard.header, file_bytes, shard.path);
    if (!absl::IsOutOfRange(header.status())) return header;
  }
  return InvalidArgument(shard.path, ": has a header of more than ", kHeaderBytesMax,
                         " bytes, which no model has: it is damaged, fetch it again");
}

absl::StatusOr<GgufFile> GgufFile::Read(Shard shard) {
  OUTRIDER_ASSIGN_OR_RETURN(GgufHeader header, ReadHeader(shard));
  GgufFile file;
  file.version_ = header.version;
  file.alignment_ = header.alignment;
  file.metadata_ = std::move(header.metadata);
  file.tensors_ = std::move(header.tensors);
  file.key_index_ = std::move(header.key_index);
  file.tensor_index_ = std::move(header.tensor_index);
  file.shards_.push_back(std::move(shard));
  return file;
}

absl::StatusOr<uint64_t> GgufFile::SplitCount() const {
  if (Find(kGgufSplitCountKey) == nullptr) return 1;
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t count, GetUint(kGgufSplitCountKey));
  if (count <= 1) return 1;
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t number, GetUint(kGgufSplitNumberKey));
  if (number == 0) return count;
  const std::string& path = shard_path(0);
  const std::string first = FirstShardPath(path, number, count)
                                .value_or("the one whose name ends in " + ShardSuffix(0, count));
  return InvalidArgument(path, ": is shard ", number + 1, " of a model split into ", count,
                         " files: open the first one instead, ", first);
}

absl::Status GgufFile::AddOtherShards(uint64_t count) {
  const std::string path = shard_path(0);
  const std::string suffix = ShardSuffix(0, count);
  if (!path.ends_with(suffix)) {
    return InvalidArgument(path, ": is the first of ", count, " shards, so its name must end in ",
                           suffix, " for the others to be found: give it back that name");
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  for (uint64_t number = 1; number < count; ++number) {
    const std::string other_path = prefix + ShardSuffix(number, count);
    absl::StatusOr<PlainFile> opened = PlainFile::Open(other_path);
    if (!opened.ok()) {
      return Annotate(opened.status(),
                      Concat(path, ": its shard ", number + 1, " of ", count, " is missing"));
    }
    OUTRIDER_ASSIGN_OR_RETURN(GgufFile other, Read({other_path, *std::move(opened)}));
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t other_number, other.GetUint(kGgufSplitNumberKey));
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t other_count, other.GetUint(kGgufSplitCountKey));
    if (other_number != number || other_count != count) {
      return InvalidArgument(other_path, ": says it is shard ", other_number + 1, " of ",
                             other_count, ", by its name it is ", number + 1, " of ", count);
    }
    OUTRIDER_RETURN_IF_ERROR(Absorb(std::move(other)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t tensor_count, GetUint(kGgufSplitTensorsKey));
  if (tensor_count != tensors_.size()) {
    return InvalidArgument(path, ": announces ", tensor_count, " tensors, its ", count,
                           " shards hold ", tensors_.size(), ": they are not of one model");
  }
  return absl::OkStatus();
}

absl::Status GgufFile::Absorb(GgufFile other) {
  const uint32_t shard = shard_count();
  for (GgufTensor& tensor : other.tensors_) {
    const auto place = static_cast<uint32_t>(tensors_.size());
    const auto [entry, is_new] = tensor_index_.try_emplace(tensor.name, place);
    if (!is_new) {
      return InvalidArgument(other.shard_path(0), ": tensor ", Quote(tensor.name),
                             " is already in ", shard_path(tensors_[entry->second].shard));
    }
    tensor.shard = shard;
    tensors_.push_back(std::move(tensor));
  }
  shards_.push_back(std::move(other.shards_.front()));
  return absl::OkStatus();
}

uint64_t GgufFile::file_bytes() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.size();
  return total;
}

const std::string& GgufFile::shard_path(uint32_t shard) const {
  return shards_[shard].path;
}

absl::StatusOr<std::vector<std::byte>> GgufFile::ReadBytes(const GgufTensor& tensor) const {
  if (tensor.layout != WeightLayout::kRows) {
    return InvalidArgument(shards_[tensor.shard].path, ": tensor ", Quote(tensor.name),
                           " lies in panels, as only the weights of a model may");
  }
  std::vector<std::byte> bytes(tensor.bytes);
  OUTRIDER_RETURN_IF_ERROR(
      ReadAt(tensor.shard, tensor.offset, bytes, Concat("tensor ", Quote(tensor.name))));
  return bytes;
}

absl::Status GgufFile::ReadAt(uint32_t shard, uint64_t offset, std::span<std::byte> out,
                              std::string_view what) const {
  const Shard& from = shards_[shard];
  if (from.file) return from.file->Read(offset, out, what);
  std::ranges::copy(from.given.subspan(offset, out.size()), out.begin());
  return absl::OkStatus();
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &metadata_[found->second].value;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

template <typename... Parts>
absl::Status GgufFile::Refuse(std::string_view key, const Parts&... parts) const {
  return InvalidArgument(shard_path(0), ": key ", Quote(key), " ", parts...);
}

absl::StatusOr<const GgufValue*> GgufFile::Get(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return NotFound(shard_path(0), ": has no key ", Quote(key));
  return value;
}

absl::StatusOr<uint64_t> GgufFile::GetUint(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, Get(key));
  absl::StatusOr<uint64_t> number = ToUint(*value);
  if (!number.ok()) return Refuse(key, Message(number.status()));
  return number;
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, Get(key));
  absl::StatusOr<double> number = ToFloat(*value);
  if (!number.ok()) return Refuse(key, Message(number.status()));
  return number;
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, Get(key));
  if (const bool* truth = std::get_if<bool>(&value->data)) return *truth;
  return Refuse(key, "is of type ", Name(value->type), ", a bool is needed");
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, Get(key));
  if (const auto* text = std::get_if<std::string_view>(&value->data)) return *text;
  return Refuse(key, "is of type ", Name(value->type), ", a string is needed");
}

absl::StatusOr<GgufArray> GgufFile::GetArray(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, Get(key));
  if (const auto* array = std::get_if<GgufArray>(&value->data)) return *array;
  return Refuse(key, "is of type ", Name(value->type), ", an array is needed");
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  if (array.type != GgufValueType::kString) {
    return Refuse(key, "is an array of ", Name(array.type), ", an array of strings is needed");
  }
  std::vector<std::string_view> texts;
  texts.reserve(array.count);  // each has its length in the file, so this is at most twice that
  const std::byte* next = array.bytes.data();
  for (uint64_t i = 0; i < array.count; ++i) {
    const uint64_t length = DecodeStringLength(next);
    next += sizeof(uint64_t);
    texts.emplace_back(reinterpret_cast<const char*>(next), length);
    next += length;
  }
  return texts;
}

template <typename Element, typename Convert>
absl::StatusOr<std::vector<Element>> GgufFile::GetNumbers(std::string_view key,
                                                          Convert convert) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  if (array.type == GgufValueType::kString) {
    return Refuse(key, "is an array of strings, an array of numbers is needed");
  }
  std::vector<Element> numbers;
  numbers.reserve(array.count);
  const size_t step = FixedBytes(array.type);
  for (uint64_t i = 0; i < array.count; ++i) {
    const absl::StatusOr<Element> number =
        convert(DecodeFixed(array.type, array.bytes.data() + i * step));
    if (!number.ok()) return Refuse(key, "element ", i, " ", Message(number.status()));
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<std::vector<uint64_t>> GgufFile::GetUints(std::string_view key) const {
  return GetNumbers<uint64_t>(key, ToUint);
}

absl::StatusOr<std::vector<bool>> GgufFile::GetFlags(std::string_view key) const {
  return GetNumbers<bool>(key, [](const GgufValue& value) -> absl::StatusOr<bool> {
    if (const bool* const flag = std::get_if<bool>(&value.data)) return *flag;
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t number, ToUint(value));
    if (number > 1) return InvalidArgument("is ", number, ", neither 0 nor 1");
    return number == 1;
  });
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(std::string_view key) const {
  return GetNumbers<int64_t>(key, ToInt);
}

absl::StatusOr<std::vector<float>> GgufFile::GetFloats(std::string_view key) const {
  return GetNumbers<float>(key, ToFloat32);
}

}  // namespace outrider
