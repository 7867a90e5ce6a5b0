#include "common/formats/containers/safetensors_json.h"

#include <array>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/safetensors.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

constexpr size_t kMostTensors = size_t{1} << 20;

// Refuses every event; a reader overrides the ones its format has a place for. The first refusal
// ends the parse and is the error.
class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictSax(const std::string& name) : name_(name) {}

  absl::Status Parse(std::string_view json) {
    length_ = json.size();
    // nlohmann takes a zero byte for the end of the text and would not look at what follows.
    const size_t zero = json.find('\0');
    if (zero != std::string_view::npos) return NotJson(zero);
    if (nlohmann::json::sax_parse(json, this)) return absl::OkStatus();
    return error_;
  }

  bool null() override { return WrongKind("null"); }
  bool boolean(bool) override { return WrongKind("a boolean"); }
  bool number_integer(number_integer_t) override { return WrongKind("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return WrongKind("a number"); }
  bool number_float(number_float_t, const string_t&) override { return WrongKind("a fraction"); }
  bool string(string_t&) override { return WrongKind("a string"); }
  bool binary(binary_t&) override { return WrongKind("binary data"); }
  bool start_object(std::size_t) override { return WrongKind("an object"); }
  bool start_array(std::size_t) override { return WrongKind("an array"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = NotJson(position);
    return false;
  }

 protected:
  template <typename... Parts>
  bool Refuse(const Parts&... parts) {
    error_ = InvalidArgument(name_, ": ", parts...);
    return false;
  }

  virtual bool WrongKind(std::string_view kind) = 0;

 private:
  absl::Status NotJson(size_t position) const {
    if (position > length_) {
      return InvalidArgument(name_, ": its JSON ends after ", length_,
                             " bytes in the middle; it is cut off, fetch it again");
    }
    return InvalidArgument(name_, ": is not valid JSON at byte ", position, " of the text");
  }

  const std::string& name_;
  size_t length_ = 0;  // of the text
  absl::Status error_;
};

class HeaderSax final : public StrictSax {
 public:
  using StrictSax::StrictSax;

  std::vector<SafetensorsHeaderEntry> TakeEntries() { return std::move(entries_); }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kText:
        place_ = Place::kHeader;
        return true;
      case Place::kHeader:
        place_ = is_metadata_ ? Place::kMetadata : Place::kTensor;
        return true;
      default:
        return WrongKind("an object");
    }
  }

  bool key(string_t& text) override {
    switch (place_) {
      case Place::kHeader:
        return BeginEntry(text);
      case Place::kTensor:
        return BeginField(text);
      default:
        if (!metadata_keys_.insert(text).second) {
          return Refuse("__metadata__ holds key ", Quote(text), " twice");
        }
        return true;
    }
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != kDtype) return WrongKind("a string");
    entries_.back().dtype = std::move(text);
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == kDtype) return WrongKind("an array");
    place_ = Place::kArray;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::kArray) return WrongKind("a number");
    if (field_ == kShape) {
      entries_.back().shape.push_back(number);
    } else if (offset_count_++ == 0) {
      entries_.back().begin = number;
    } else {
      entries_.back().end = number;
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (field_ == kOffsets && offset_count_ != 2) {
      return Refuse(Where(), " has ", offset_count_, " data_offsets, expected begin and end");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (size_t field = 0; field < kFieldNames.size(); ++field) {
        if (!seen_[field]) return Refuse(Where(), " has no ", kFieldNames[field]);
      }
    }
    place_ = place_ == Place::kHeader ? Place::kText : Place::kHeader;
    return true;
  }

 private:
  // Where the next event falls: text { header { tensor { array [ ] } metadata { } } }
  enum class Place { kText, kHeader, kTensor, kArray, kMetadata };
  enum Field : size_t { kDtype, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};

  bool BeginEntry(const std::string& text) {
    if (!names_.insert(text).second) return Refuse("tensor ", Quote(text), " appears twice");
    is_metadata_ = text == "__metadata__";
    if (is_metadata_) return true;
    if (entries_.size() == kMostTensors) {
      return Refuse("holds more than ", kMostTensors, " tensors: it is damaged");
    }
    entries_.push_back({.name = text});
    seen_ = {};
    offset_count_ = 0;
    return true;
  }

  bool BeginField(const std::string& text) {
    for (size_t field = 0; field < kFieldNames.size(); ++field) {
      if (text != kFieldNames[field]) continue;
      if (seen_[field]) return Refuse(Where(), " has ", text, " twice");
      seen_[field] = true;
      field_ = static_cast<Field>(field);
      return true;
    }
    return Refuse(Where(), " has a field ", Quote(text), " that safetensors does not define");
  }

  std::string Where() const { return Concat("tensor ", Quote(entries_.back().name)); }

  bool WrongKind(std::string_view kind) override {
    if (place_ == Place::kText) return Refuse("begins its header with ", kind, ", not an object");
    if (is_metadata_) return Refuse("__metadata__ holds ", kind, ", only strings are allowed");
    if (place_ == Place::kHeader) return Refuse(Where(), " is ", kind, ", not an object");
    return Refuse(Where(), " has ", kind, " in its ", kFieldNames[field_]);
  }

  Place place_ = Place::kText;
  bool is_metadata_ = false;
  Field field_ = kDtype;
  size_t offset_count_ = 0;
  std::array<bool, 3> seen_ = {};
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_set<std::string> metadata_keys_;
  std::vector<SafetensorsHeaderEntry> entries_;
};

// {"metadata": anything, "weight_map": {tensor: file}}: only the map is kept.
class IndexSax final : public StrictSax {
 public:
  using StrictSax::StrictSax;

  bool has_map() const { return has_map_; }
  absl::btree_map<std::string, std::string> TakeMap() { return std::move(map_); }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      in_map_ = text == "weight_map";
      if (in_map_ && has_map_) return Refuse("holds weight_map twice");
      has_map_ |= in_map_;
    } else if (in_map_) {
      tensor_ = text;
      if (map_.contains(tensor_)) return Refuse("tensor ", Quote(tensor_), " is listed twice");
      if (map_.size() == kMostTensors) {
        return Refuse("lists more than ", kMostTensors, " tensors: it is damaged");
      }
    }
    return true;
  }

  bool string(string_t& text) override {
    if (!in_map_ || depth_ != 2) return WrongKind("a string");
    map_.emplace(tensor_, std::move(text));
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map_ && depth_ == 2) return WrongKind("an object");
    ++depth_;
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  bool start_array(std::size_t) override {
    if (in_map_ || depth_ == 0) return WrongKind("an array");
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

 private:
  bool WrongKind(std::string_view kind) override {
    if (depth_ == 0) return Refuse("is ", kind, ", not an object");
    if (!in_map_) return true;  // whatever else an index holds
    if (depth_ == 1) return Refuse("weight_map is ", kind, ", not an object");
    return Refuse("tensor ", Quote(tensor_), " is mapped to ", kind, ", not to a file name");
  }

  size_t depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
  std::string tensor_;
  absl::btree_map<std::string, std::string> map_;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsHeaderEntry>> ReadSafetensorsHeader(std::string_view json,
                                                                          const std::string& name) {
  HeaderSax sax(name);
  OUTRIDER_RETURN_IF_ERROR(sax.Parse(json));
  return sax.TakeEntries();
}

absl::StatusOr<absl::btree_map<std::string, std::string>> ParseSafetensorsIndex(
    std::string_view json, const std::string& name) {
  IndexSax sax(name);
  OUTRIDER_RETURN_IF_ERROR(sax.Parse(json));
  if (!sax.has_map()) return InvalidArgument(name, ": has no weight_map");
  return sax.TakeMap();
}

}  // namespace outrider
