// Jinja's tests: {% if value is name(arguments) %}.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/objects.h"

namespace outrider::jinja {

struct Test {
  std::string_view name;
  absl::StatusOr<bool> (*check)(RenderState& state, const Value& subject,
                                const Arguments& arguments);
};

// Null for a test that is not supported.
const Test* FindTest(std::string_view name);

}  // namespace outrider::jinja
