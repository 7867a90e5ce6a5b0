// The values that belong to the running template rather than to its data: functions, methods,
// macros, loops, and the scopes that names live in.
#pragma once

#include <chrono>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct For;
struct MacroDefinition;

// What a call passes. Named arguments keep the order they were written in.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of a function's parameters; nothing where the caller gave none.
using Bound = std::vector<std::optional<Value>>;

// Matches arguments with parameters as Python does. The first `required` must be given; a parameter
// named "" can only be given by position.
absl::StatusOr<Bound> Bind(const Arguments& arguments,
                           std::initializer_list<std::string_view> parameters, size_t required = 0);

// Names seen from one place in the template, innermost scope first.
struct Scope : Object {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;  // the views are the template's own
  bool captured = false;  // a macro closes over it, so it is in RenderState::captured_scopes

  // The value of the name here or further out; null when nobody knows it.
  absl::StatusOr<const Value*> Find(std::string_view name) const;
  absl::Status Set(std::string_view name, Value value);
};

// What a rendering keeps beside the values themselves.
struct RenderState {
  explicit RenderState(std::chrono::system_clock::time_point time) : now(time) {}
  RenderState(const RenderState&) = delete;
  RenderState& operator=(const RenderState&) = delete;
  ~RenderState();  // breaks the cycles that namespaces and macros may have tied

  absl::StatusOr<std::shared_ptr<Namespace>> NewNamespace();
  void Capture(const std::shared_ptr<Scope>& scope);

  Budget budget;  // first: values give back to it when they go
  std::chrono::system_clock::time_point now;
  std::vector<std::shared_ptr<Namespace>> namespaces;
  std::vector<std::shared_ptr<Scope>> captured_scopes;  // those that a macro closes over
};

// range, namespace, raise_exception ...
struct Function : Object {
  std::string_view name;
  Result (*call)(RenderState& state, const Arguments& arguments) = nullptr;
};

// A method with its object: "abc".upper. The arguments are the call's.
struct Method : Object {
  using Call = Result (*)(Budget& budget, const Value& self, const Arguments& arguments);
  Value self;
  std::string_view name;
  Call call = nullptr;
};

struct Macro : Object {
  const MacroDefinition* definition = nullptr;
  std::shared_ptr<Scope> scope;  // where it was defined: a macro sees those names as they are now
};

// The `loop` of a for statement. It looks ahead only when the template asks (loop.last): a filter
// on the loop may read a namespace that the body changes.
struct Loop : Object {
  std::optional<Cursor> source;
  const For* statement = nullptr;  // for its target and its filter
  std::shared_ptr<Scope> outside;  // where the filter finds its names
  int64_t index0 = -1;
  std::deque<Value> ahead;  // taken from the source before their turn
  std::optional<int64_t> length;
  Value previous, current;
};

}  // namespace outrider::jinja
