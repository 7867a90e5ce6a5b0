// What stands behind a dot: the methods of Python's types, entries of a dict, attributes of a
// namespace or a loop.
#pragma once

#include <string_view>

#include "common/text/jinja/objects.h"

namespace outrider::jinja {

// object.name as the sandbox allows it: an attribute of the type first, else the item of that name,
// else undefined. Methods that would change their object are undefined, with a reason.
Result GetAttribute(RenderState& state, const Value& object, std::string_view name);

// object[key]: the item first, else the attribute.
Result GetItemOrAttribute(RenderState& state, const Value& object, const Value& key);

// object.name = value, which only a namespace allows.
absl::Status SetAttribute(const Value& object, std::string_view name, Value value);

// Calls a function or a method (macros are the interpreter's).
Result CallNative(RenderState& state, const Value& callee, const Arguments& arguments);

// range, dict, namespace, raise_exception, strftime_now; null for anything else.
const Value* FindGlobal(std::string_view name);
// Names that Jinja defines and this does not.
bool IsUnsupportedGlobal(std::string_view name);

}  // namespace outrider::jinja
