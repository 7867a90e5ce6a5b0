// Fields of a JSON text somebody else wrote, read with errors that name file and field:
// "tokenizer.json: model.byte_fallback is a string, not a boolean". For formats alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace outrider {

// InvalidArgument, with the byte where it happens, when `text` is not JSON.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& name);

// Null when `object` is none, lacks the key, or has null there.
const nlohmann::json* Member(const nlohmann::json& object, const char* key);

// `where` ends in what the key completes to a path: "tokenizer.json: model.".
absl::StatusOr<bool> FlagOr(const nlohmann::json& object, const char* key, bool fallback,
                            std::string_view where);

// A view into `object`; empty when the key is absent or null.
absl::StatusOr<std::string_view> TextOrEmpty(const nlohmann::json& object, const char* key,
                                             std::string_view where);

// InvalidArgument, starting with `what`, unless `value` is a whole number that int64 holds.
absl::StatusOr<int64_t> WholeNumber(const nlohmann::json& value, std::string_view what);

}  // namespace outrider
