#include "tests/fuzz/spoiling.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/formats/containers/gguf_file.h"

// libFuzzer's; not there where inputs are only replayed.
extern "C" [[gnu::weak]] size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace outrider {
namespace {

constexpr size_t kEditBytes = 13;
constexpr size_t kEditsMax = 8;  // of more, hardly a file would open
constexpr size_t kFirstBytes = 2;

// What is done where: in metadata, and not anywhere; to records, and not to bytes.
constexpr uint8_t kInMetadata = 0x80;
constexpr uint8_t kToRecords = 0x08;

constexpr std::array<uint64_t, 14> kExtremes = {
    0,          1,          2,          0xff,       0x7fffffff, 0x80000000, 0xffffffff,
    1ull << 32, 1ull << 40, ~0ull >> 1, 1ull << 63, ~0ull,      ~0ull - 15, 0x7ff0ull << 48};

constexpr std::array kJsonExtremes = {
    "0",
    "-1",
    "1",
    "0.5",
    "1e999",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};

struct Edit {
  uint32_t where;
  uint8_t what;
  uint64_t with;
};

Edit EditAt(const uint8_t* data) {
  Edit edit;
  std::memcpy(&edit.where, data, sizeof(edit.where));
  edit.what = data[4];
  std::memcpy(&edit.with, data + 5, sizeof(edit.with));
  return edit;
}

// As much of them as there is.
void Overwrite(std::string& bytes, size_t at, const void* with, size_t count) {
  if (at < bytes.size()) std::memcpy(bytes.data() + at, with, std::min(count, bytes.size() - at));
}

// Files count from zero to few: the low byte is enough.
void AddToCount(std::string& bytes, std::optional<size_t> count_at, int more) {
  if (count_at && *count_at < bytes.size()) {
    bytes[*count_at] = static_cast<char>(bytes[*count_at] + more);
  }
}

void SpoilBytes(const Edit& edit, size_t end, std::string& bytes) {
  const size_t at = edit.where % std::min(end, bytes.size());
  constexpr size_t kLengths[] = {1, 2, 4, 8};
  switch (edit.what & 7) {
    case 0:
    case 1:
    case 2:
    case 3:  // other bytes
      Overwrite(bytes, at, &edit.with, kLengths[edit.what & 3]);
      break;
    case 4:  // one bit
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << edit.with % 8);
      break;
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.insert(at, edit.with % 64, static_cast<char>(edit.with >> 8));
      break;
    default:
      bytes.erase(at, edit.with % 64);
      break;
  }
}

// The first number behind a key, or else what stands there.
void MakeJsonExtreme(size_t at, size_t end, uint64_t with, std::string& text) {
  const auto is_number = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  const auto ends_value = [](char c) { return c == ',' || c == '}'; };
  const auto last = text.begin() + static_cast<ptrdiff_t>(end);
  const auto colon = std::find(text.begin() + static_cast<ptrdiff_t>(at), last, ':');
  if (colon == last) return;
  const auto number = std::find_if(colon, last, is_number);
  const auto from = number == last ? colon + 1 : number;
  const auto to = number == last ? std::find_if(from, text.end(), ends_value)
                                 : std::find_if_not(from, text.end(), is_number);
  text.replace(from, to, kJsonExtremes[with % kJsonExtremes.size()]);
}

// A length, a type, a value, a dimension or an offset: what GGUF has at the beginning of a record,
// behind its name, and at its end.
void MakeGgufExtreme(size_t at, size_t end, uint64_t with, std::string& bytes) {
  uint64_t name_length = 0;
  if (end - at < sizeof(name_length)) return;
  std::memcpy(&name_length, bytes.data() + at, sizeof(name_length));
  const size_t named = at + sizeof(name_length) + std::min<uint64_t>(name_length, end - at);
  const size_t value = named + 4;
  // Half of the time the value, which all else hangs on.
  const size_t places[] = {at,       named,   value + 4, value + 8, value + 12, end - 20,
                           end - 12, end - 8, end - 4,   value,     value,      value,
                           value,    value,   value,     value,     value};
  const uint64_t extreme = kExtremes[(with >> 8) % kExtremes.size()];
  Overwrite(bytes, places[with % std::size(places)], &extreme, (with >> 16) % 4 == 0 ? 8 : 4);
}

// `records` lie where they did before the first edit: of two, the second may miss.
void SpoilRecord(const Edit& edit, const WholeFile& file, std::string& bytes) {
  const auto begin_of = [&](size_t record) {
    const size_t at = record < file.records.size() ? file.records[record].at : file.records_end;
    return std::min(at, bytes.size());
  };
  const size_t record = edit.where % file.records.size();
  const size_t begin = begin_of(record), end = begin_of(record + 1);
  const std::string text = bytes.substr(begin, end - begin);
  switch (edit.what & 7) {
    case 0:
    case 1: {  // once more, there or elsewhere
      const size_t to = (edit.what & 1) == 0 ? record : edit.with % file.records.size();
      bytes.insert(begin_of(to), text);
      AddToCount(bytes, file.records[record].count_at, 1);
      break;
    }
    case 2:
      bytes.erase(begin, end - begin);
      AddToCount(bytes, file.records[record].count_at, -1);
      break;
    case 3: {  // at the end of them all
      bytes.insert(begin_of(file.records.size()), text);
      bytes.erase(begin, end - begin);
      break;
    }
    default:
      (file.is_text ? MakeJsonExtreme : MakeGgufExtreme)(begin, end, edit.with, bytes);
      break;
  }
}

void Apply(const Edit& edit, const WholeFile& file, std::string& bytes) {
  if (bytes.empty()) return;
  if ((edit.what & kToRecords) != 0) {
    SpoilRecord(edit, file, bytes);
  } else {
    SpoilBytes(edit, (edit.what & kInMetadata) != 0 ? file.records_end : bytes.size(), bytes);
  }
}

}  // namespace

WholeFile WholeGguf(std::string bytes) {
  WholeFile whole = {.bytes = std::move(bytes)};
  const auto file = GgufFile::Parse(std::as_bytes(std::span(whole.bytes)), "whole");
  OUTRIDER_CHECK_OK(file.status());
  constexpr size_t kTensorCountAt = 8, kKeyCountAt = 16;
  size_t end = 24;
  const auto add = [&](std::string_view name, size_t count_at) {
    const uint64_t length = name.size();
    std::string begin(sizeof(length), '\0');
    std::memcpy(begin.data(), &length, sizeof(length));
    const size_t at = whole.bytes.find(begin.append(name), end);
    OUTRIDER_CHECK(at != std::string::npos, "names lie in the file, in their order");
    whole.records.push_back({.at = at, .count_at = count_at});
    end = at + begin.size();
  };
  for (const GgufKeyValue& pair : file->metadata()) add(pair.key, kKeyCountAt);
  for (const GgufTensor& tensor : file->tensors()) add(tensor.name, kTensorCountAt);
  // How many dimensions, these, a type and an offset.
  whole.records_end = end + 4 + 8 * file->tensors().back().dims.size() + 4 + 8;
  return whole;
}

WholeFile WholeJson(std::string text) {
  WholeFile whole = {.bytes = std::move(text), .is_text = true};
  char before = ' ';
  for (size_t at = 0; at < whole.bytes.size(); ++at) {
    const char c = whole.bytes[at];
    const bool begins = (c == '"' || c == '{') && (before == '{' || before == ',' || before == '[');
    if (begins) whole.records.push_back({.at = at, .count_at = {}});
    if (std::isspace(static_cast<unsigned char>(c)) == 0) before = c;
  }
  OUTRIDER_CHECK(!whole.records.empty(), "a whole file says something");
  whole.records_end = whole.bytes.size();
  return whole;
}

std::string Spoilt(const WholeFile& file, const uint8_t* data, size_t size, size_t skipped) {
  std::string bytes = file.bytes;
  for (size_t at = skipped; at + kEditBytes <= size; at += kEditBytes) {
    Apply(EditAt(data + at), file, bytes);
  }
  return bytes;
}

size_t MutateSpoilt(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  std::minstd_rand random(seed);
  const auto byte = [&] { return static_cast<uint8_t>(random() >> 8); };
  size_max = std::min(size_max, kFirstBytes + kEditsMax * kEditBytes);
  if (byte() % 4 == 0) {
    size = LLVMFuzzerMutate(data, std::min(size, size_max), size_max);
  } else {
    const size_t edits = byte() % 4 == 0 ? 2 : 1;  // of one, what is behind it is found out too
    size = std::min(size_max, kFirstBytes + edits * kEditBytes);
    std::generate(data, data + size, byte);
    // Of three edits in four what they leave still reads.
    for (size_t i = kFirstBytes + 4; i < size; i += kEditBytes) data[i] |= byte() & kToRecords;
  }
  if (size < kFirstBytes) return size;
  std::generate(data, data + kFirstBytes, byte);
  return size;
}

}  // namespace outrider
