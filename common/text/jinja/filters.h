// Jinja's filters: {{ value | name(arguments) }}.
#pragma once

#include <string_view>

#include "common/text/jinja/objects.h"

namespace outrider::jinja {

struct Filter {
  std::string_view name;
  Result (*apply)(RenderState& state, const Value& subject, const Arguments& arguments);
};

// Null for a filter that is not supported.
const Filter* FindFilter(std::string_view name);

// The filters on sequences, which stand in a file of their own.
const Filter* FindSequenceFilter(std::string_view name);

}  // namespace outrider::jinja
