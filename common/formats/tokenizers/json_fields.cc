#include "common/formats/tokenizers/json_fields.h"

#include <limits>

#include "common/base/status.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// Takes every event and keeps only where the text stops being JSON.
class ErrorPlace final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    position_ = position;
    return false;
  }

  size_t position() const { return position_; }

 private:
  size_t position_ = 0;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, const std::string& name) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  ErrorPlace error;
  Json::sax_parse(text, &error);
  if (error.position() > text.size()) {
    return InvalidArgument(name, ": ends after ", text.size(),
                           " bytes in the middle of its JSON; it is cut off, fetch it again");
  }
  return InvalidArgument(name, ": stops being valid JSON at byte ", error.position(), " of ",
                         text.size());
}

const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> FlagOr(const Json& object, const char* key, bool fallback,
                            std::string_view where) {
  const Json* value = Member(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    return InvalidArgument(where, key, " is of type ", value->type_name(), ", not a boolean");
  }
  return value->get<bool>();
}

absl::StatusOr<std::string_view> TextOrEmpty(const Json& object, const char* key,
                                             std::string_view where) {
  const Json* value = Member(object, key);
  if (value == nullptr) return std::string_view();
  if (!value->is_string()) {
    return InvalidArgument(where, key, " is of type ", value->type_name(), ", not a string");
  }
  return std::string_view(value->get_ref<const std::string&>());
}

absl::StatusOr<int64_t> WholeNumber(const Json& value, std::string_view what) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                        : value.is_number_integer();
  if (!fits) return InvalidArgument(what, " is not a whole number");
  return value.get<int64_t>();
}

}  // namespace outrider
