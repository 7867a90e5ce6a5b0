// Jinja source to a tree.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"

namespace outrider::jinja {

// Errors begin with "line N: " and name the construct; Unimplemented for what Jinja has and this
// does not. `source` is valid UTF-8.
absl::StatusOr<Statements> ParseTemplate(std::string_view source);

}  // namespace outrider::jinja
