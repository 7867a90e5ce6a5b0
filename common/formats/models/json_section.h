// One object of a JSON file and where it stands in it, read with errors that say so:
// "dir/config.json: rope_scaling.factor is -2, not a finite number above zero". Private to this
// room.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "nlohmann/json.hpp"

namespace outrider {

using Json = nlohmann::json;

// Object and file name must outlive it.
class Section {
 public:
  Section(const Json& object, const std::string& file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  const Json& object() const { return object_; }
  const std::string& file() const { return file_; }

  // Null when the key is absent or its value is null.
  const Json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool Has(const char* key) const { return Find(key) != nullptr; }
  // There, and said to be nothing.
  bool IsNull(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && found->is_null();
  }
  // How a message calls a key.
  std::string Name(const char* key) const { return prefix_ + key; }

  template <typename... Parts>
  absl::Status Invalid(const char* key, const Parts&... parts) const {
    return InvalidArgument(file_, ": ", prefix_, key, parts...);
  }
  template <typename... Parts>
  absl::Status Unsupported(const char* key, const Parts&... parts) const {
    return Unimplemented(file_, ": ", prefix_, key, parts...);
  }
  absl::Status Missing(const char* key) const { return NotFound(file_, ": has no ", prefix_, key); }

  // A whole number from 1 to `max`.
  absl::StatusOr<uint32_t> Count(const char* key, uint32_t max) const {
    const Json* value = Find(key);
    if (value == nullptr) return Missing(key);
    return CountFrom(*value, key, 1, max);
  }
  absl::StatusOr<uint32_t> CountOr(const char* key, uint32_t max, uint32_t fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    return CountFrom(*value, key, 1, max);
  }
  absl::StatusOr<uint32_t> CountOrZero(const char* key, uint32_t max, uint32_t fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    return CountFrom(*value, key, 0, max);
  }

  // A number above zero that a float can hold.
  absl::StatusOr<float> PositiveOr(const char* key, float fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) return Invalid(key, " is ", value->type_name(), ", not a number");
    const double number = value->get<double>();
    if (!IsPositiveFloat(number)) {
      return Invalid(key, " is ", number, ", not a finite number above zero");
    }
    return static_cast<float>(number);
  }
  absl::StatusOr<float> Positive(const char* key) const {
    if (!Has(key)) return Missing(key);
    return PositiveOr(key, 0);
  }

  // Likewise, or zero, which it is where it is not said.
  absl::StatusOr<float> PositiveOrZero(const char* key) const {
    const Json* value = Find(key);
    if (value != nullptr && value->is_number() && value->get<double>() == 0) return 0.0f;
    return PositiveOr(key, 0.0f);
  }

  absl::StatusOr<bool> FlagOr(const char* key, bool fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return Invalid(key, " is ", value->type_name(), ", not a boolean");
    return value->get<bool>();
  }

  absl::StatusOr<std::string> TextOr(const char* key, std::string fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) return Invalid(key, " is ", value->type_name(), ", not a string");
    return value->get<std::string>();
  }

 private:
  absl::StatusOr<uint32_t> CountFrom(const Json& value, const char* key, uint32_t min,
                                     uint32_t max) const {
    if (!value.is_number_integer()) {
      return Invalid(key, " is ", value.type_name(), ", not a whole number");
    }
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      if (number >= min && number <= max) return static_cast<uint32_t>(number);
      return Invalid(key, " is ", number, ", expected ", min, " to ", max);
    }
    return Invalid(key, " is ", value.get<int64_t>(), ", expected ", min, " to ", max);
  }

  const Json& object_;
  const std::string& file_;
  std::string prefix_;
};

}  // namespace outrider
