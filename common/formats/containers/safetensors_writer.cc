#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/atomic_file.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/safetensors.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

using Json = nlohmann::json;

// The data section begins at a multiple of this, so that elements of every width are aligned.
constexpr size_t kDataAlignment = 8;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Dump() replaces what is not UTF-8; a text it leaves alone is.
bool IsUtf8(const std::string& text) {
  return Json::parse(Dump(text), nullptr, false) == text;
}

absl::Status CheckEntry(const SafetensorsEntry& entry) {
  const std::string where = Concat("tensor ", Quote(entry.name));
  if (entry.name == "__metadata__" || !IsUtf8(entry.name)) {
    return InvalidArgument(where, " has a name that safetensors cannot hold");
  }
  const absl::StatusOr<uint64_t> bytes = SafetensorsBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) return InvalidArgument(where, " ", Message(bytes.status()));
  if (*bytes != entry.bytes.size()) {
    return InvalidArgument(where, " takes ", *bytes, " bytes by dtype and shape, ",
                           entry.bytes.size(), " are given");
  }
  return absl::OkStatus();
}

// Entry by entry: nlohmann's ordered object looks a new key up among all the ones before it.
std::string EncodeHeader(std::span<const SafetensorsEntry* const> entries,
                         const absl::btree_map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    Json object = Json::object();
    for (const auto& [key, value] : metadata) object[key] = value;
    json += Concat("\"__metadata__\":", Dump(object));
  }
  uint64_t offset = 0;
  for (const SafetensorsEntry* entry : entries) {
    const uint64_t end = offset + entry->bytes.size();
    const Json object = {
        {"dtype", entry->dtype}, {"shape", entry->shape}, {"data_offsets", {offset, end}}};
    json += Concat(json.size() > 1 ? "," : "", Dump(entry->name), ":", Dump(object));
    offset = end;
  }
  json += '}';
  json.resize((json.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  return json;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                              const absl::btree_map<std::string, std::string>& metadata) {
  absl::flat_hash_set<std::string> names;
  std::vector<const SafetensorsEntry*> ordered;
  for (const SafetensorsEntry& entry : entries) {
    OUTRIDER_RETURN_IF_ERROR(Annotate(CheckEntry(entry), path));
    if (!names.insert(entry.name).second) {
      return InvalidArgument(path, ": tensor ", Quote(entry.name), " is given twice");
    }
    ordered.push_back(&entry);
  }
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return InvalidArgument(path, ": metadata key ", Quote(key), " or its value is not in UTF-8");
    }
  }
  std::ranges::stable_sort(ordered, std::greater<>(), [](const SafetensorsEntry* entry) {
    return *SafetensorsElementBytes(entry->dtype);
  });

  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::string header = EncodeHeader(ordered, metadata);
  const uint64_t header_bytes = header.size();
  OUTRIDER_RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(&header_bytes, 1))));
  OUTRIDER_RETURN_IF_ERROR(file.Append(header));
  for (const SafetensorsEntry* entry : ordered) {
    OUTRIDER_RETURN_IF_ERROR(file.Append(entry->bytes));
  }
  return file.Commit();
}

}  // namespace outrider
