// JSON as json.dumps writes it, and JSON read into values.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/text/jinja/value.h"
#include "nlohmann/json_fwd.hpp"

namespace outrider::jinja {

struct JsonStyle {
  std::optional<std::string> indent;  // of each level; none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
absl::Status AppendJson(Budget& budget, const Value& value, const JsonStyle& style,
                        std::string& out);

// Texts that are no UTF-8 count as U+FFFD wherever they break.
Result FromJson(Budget& budget, const nlohmann::ordered_json& json);

}  // namespace outrider::jinja
