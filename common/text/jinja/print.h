// How values look as text: str() and repr() as Python writes them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

// What {{ value }} prints: None, True, 1.0, ['a', 1] ...; nothing for undefined.
absl::Status AppendText(Budget& budget, const Value& value, std::string& out);
// The same, as a value; texts are returned as they are.
Result ToTextValue(Budget& budget, const Value& value);

// What a list prints for its items: 'quoted'.
absl::Status AppendRepr(Budget& budget, const Value& value, std::string& out);

// An error once the text under construction is longer than the budget allows. A few values that
// share their parts can look very long.
absl::Status CheckSize(Budget& budget, const std::string& out);

// `digits` hexadecimal digits, lower case.
void AppendHex(char32_t code, int digits, std::string& out);

// The shortest decimal that reads back as the same double, in Python's layout.
std::string RealToText(double value);

}  // namespace outrider::jinja
