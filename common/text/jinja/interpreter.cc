#include "common/text/jinja/interpreter.h"

#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/jinja/attributes.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"

namespace outrider::jinja {

// Names are looked up in another scope for as long as it lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
  ~ScopeGuard() { interpreter_.scope_ = std::move(outer_); }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outer_;
};

// Output is collected here for as long as it lives.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.output_, &text_)) {}
  ~Capture() {
    interpreter_.output_ = outer_;
    interpreter_.budget_.Release(text_.size());
  }
  const std::string& text() const { return text_; }

 private:
  Interpreter& interpreter_;
  std::string text_;
  std::string* outer_;
};

absl::StatusOr<std::string> Interpreter::Run(const Statements& statements) {
  const Capture capture(*this);
  const FlowOr flow = Execute(statements);
  if (!flow.ok()) return Annotate(flow.status(), Concat("line ", error_line_));
  return capture.text();
}

absl::Status Interpreter::Print(std::string_view text) {
  if (text.size() > Budget::kMaxTextBytes - output_->size()) {
    return InvalidArgument("the output grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
  }
  OUTRIDER_RETURN_IF_ERROR(budget_.Reserve(text.size()));
  output_->append(text);
  return absl::OkStatus();
}

absl::Status Interpreter::Print(const Value& value) {
  if (value.is(Kind::kString)) return Print(value.text().bytes);
  std::string text;
  OUTRIDER_RETURN_IF_ERROR(AppendText(budget_, value, text));
  return Print(text);
}

absl::StatusOr<std::shared_ptr<Scope>> Interpreter::NewScope(std::shared_ptr<Scope> parent) {
  OUTRIDER_ASSIGN_OR_RETURN(auto scope, NewObject<Scope>(budget_, 0));
  scope->parent = std::move(parent);
  return scope;
}

// Statements.

Interpreter::FlowOr Interpreter::Execute(const Statements& statements) {
  const Budget::Level level(budget_);
  OUTRIDER_RETURN_IF_ERROR(level.status());
  for (const Statement& statement : statements) {
    OUTRIDER_RETURN_IF_ERROR(budget_.Spend(1));
    FlowOr flow =
        std::visit([this](const auto& node) { return ExecuteNode(node); }, statement.node);
    if (!flow.ok() && error_line_ == 0) error_line_ = statement.line;
    if (!flow.ok() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Data& node) {
  OUTRIDER_RETURN_IF_ERROR(budget_.ReadBytes(node.text.size()));
  OUTRIDER_RETURN_IF_ERROR(Print(node.text));
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Output& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.expression));
  OUTRIDER_RETURN_IF_ERROR(Print(value));
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const If& node) {
  for (const auto& [test, body] : node.branches) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool holds, EvaluateTruth(test));
    if (holds) return Execute(body);
  }
  return Execute(node.otherwise);
}

// Jinja's `else` runs unless some body ran to its end, which one that breaks or continues does not.
Interpreter::FlowOr Interpreter::ExecuteNode(const For& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value source, Evaluate(*node.source));
  OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(source));
  OUTRIDER_ASSIGN_OR_RETURN(auto loop, NewObject<Loop>(budget_, 0, cursor.depth() + 1));
  loop->source = std::move(cursor);
  loop->statement = &node;
  loop->outside = scope_;
  const absl::StatusOr<bool> completed = RunLoop(node, loop);
  // A chain of loops that keep each other's scopes could grow as long as the template likes.
  loop->source.reset();
  loop->outside.reset();
  if (!completed.ok()) return completed.status();
  if (*completed || node.otherwise.empty()) return Flow::kNext;
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
  const ScopeGuard guard(*this, std::move(scope));
  return Execute(node.otherwise);
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Set& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  OUTRIDER_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const SetBlock& node) {
  Value value;
  {
    OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
    const ScopeGuard guard(*this, std::move(scope));
    const Capture capture(*this);
    OUTRIDER_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow != Flow::kNext) return flow;
    OUTRIDER_ASSIGN_OR_RETURN(value, MakeText(budget_, capture.text()));
    if (node.filter != nullptr) {
      rendered_ = std::move(value);
      OUTRIDER_ASSIGN_OR_RETURN(value, Evaluate(*node.filter));
    }
  }
  OUTRIDER_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const FilterBlock& node) {
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
  const ScopeGuard guard(*this, std::move(scope));
  Value value;
  {
    const Capture capture(*this);
    OUTRIDER_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow != Flow::kNext) return flow;
    OUTRIDER_ASSIGN_OR_RETURN(rendered_, MakeText(budget_, capture.text()));
    OUTRIDER_ASSIGN_OR_RETURN(value, Evaluate(*node.filter));
  }
  OUTRIDER_RETURN_IF_ERROR(Print(value));
  return Flow::kNext;
}

// The values see the names outside, not one another.
Interpreter::FlowOr Interpreter::ExecuteNode(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, expression] : node.bindings) {
    OUTRIDER_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
  const ScopeGuard guard(*this, std::move(scope));
  for (size_t i = 0; i < values.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(Assign(node.bindings[i].first, values[i]));
  }
  return Execute(node.body);
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Generation& node) {
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
  const ScopeGuard guard(*this, std::move(scope));
  return Execute(node.body);
}

Interpreter::FlowOr Interpreter::ExecuteNode(const MacroDefinition& node) {
  OUTRIDER_ASSIGN_OR_RETURN(auto macro, NewObject<Macro>(budget_, 0));
  macro->definition = &node;
  macro->scope = scope_;
  state_.Capture(scope_);
  OUTRIDER_RETURN_IF_ERROR(scope_->Set(node.name, Value(Kind::kMacro, std::move(macro))));
  return Flow::kNext;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Break& /*node*/) {
  return Flow::kBreak;
}

Interpreter::FlowOr Interpreter::ExecuteNode(const Continue& /*node*/) {
  return Flow::kContinue;
}

absl::Status Interpreter::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) return AssignTuple(target, value);
  if (target.attribute.empty()) return scope_->Set(target.name, value);
  OUTRIDER_ASSIGN_OR_RETURN(const Value* space, scope_->Find(target.name));
  return SetAttribute(space == nullptr ? Value() : *space, target.attribute, value);
}

absl::Status Interpreter::AssignTuple(const Target& target, const Value& value) {
  OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(value));
  std::vector<Value> values;
  while (values.size() <= target.items.size()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, cursor.Next(budget_));
    if (!item) break;
    values.push_back(*std::move(item));
  }
  if (values.size() != target.items.size()) {
    return InvalidArgument(values.size() > target.items.size() ? "too many" : "not enough",
                           " values to unpack, expected ", target.items.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Budget::Level level(budget_);
    OUTRIDER_RETURN_IF_ERROR(level.status());
    OUTRIDER_RETURN_IF_ERROR(Assign(target.items[i], values[i]));
  }
  return absl::OkStatus();
}

// Loops.

absl::StatusOr<bool> Interpreter::RunLoop(const For& node, const std::shared_ptr<Loop>& loop) {
  bool completed = false;
  while (true) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, TakeItem(*loop));
    if (!item) return completed;
    ++loop->index0;
    loop->previous = std::exchange(loop->current, *item);
    OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
    const ScopeGuard guard(*this, std::move(scope));
    OUTRIDER_RETURN_IF_ERROR(Assign(node.target, *item));
    OUTRIDER_RETURN_IF_ERROR(scope_->Set("loop", Value(Kind::kLoop, loop)));
    OUTRIDER_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow == Flow::kBreak) return completed;
    completed = completed || flow == Flow::kNext;
  }
}

absl::StatusOr<std::optional<Value>> Interpreter::TakeItem(Loop& loop) {
  if (loop.ahead.empty()) return PullItem(loop);
  std::optional<Value> item(std::move(loop.ahead.front()));
  loop.ahead.pop_front();
  return item;
}

absl::StatusOr<std::optional<Value>> Interpreter::PullItem(Loop& loop) {
  while (loop.source) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, loop.source->Next(budget_));
    if (!item || loop.statement->filter == nullptr) return item;
    OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(loop.outside));
    const ScopeGuard guard(*this, std::move(scope));
    OUTRIDER_RETURN_IF_ERROR(Assign(loop.statement->target, *item));
    OUTRIDER_ASSIGN_OR_RETURN(const bool passes, EvaluateTruth(loop.statement->filter));
    if (passes) return item;
  }
  return std::nullopt;
}

absl::Status Interpreter::LookAhead(Loop& loop, std::string_view attribute) {
  const bool all = attribute == "length" || attribute == "revindex" || attribute == "revindex0";
  if (all && !loop.length && loop.source && loop.statement->filter == nullptr) {
    loop.length = loop.source->length();
  }
  if (all && loop.length) return absl::OkStatus();
  const bool next = attribute == "last" || attribute == "nextitem";
  while (all || (next && loop.ahead.empty())) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, PullItem(loop));
    if (!item) break;
    loop.ahead.push_back(*std::move(item));
  }
  if (all) loop.length = loop.index0 + 1 + static_cast<int64_t>(loop.ahead.size());
  return absl::OkStatus();
}

// Macros.

Result Interpreter::CallMacro(const Macro& macro, Arguments arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(macro.scope));
  const ScopeGuard guard(*this, scope);
  OUTRIDER_RETURN_IF_ERROR(BindMacro(macro, std::move(arguments), *scope));
  const Capture capture(*this);
  OUTRIDER_RETURN_IF_ERROR(Execute(macro.definition->body).status());
  return MakeText(budget_, capture.text());
}

absl::Status Interpreter::BindMacro(const Macro& macro, Arguments arguments, Scope& scope) {
  const MacroDefinition& definition = *macro.definition;
  const auto& parameters = definition.parameters;
  auto& positional = arguments.positional;
  const auto take_named = [&arguments](std::string_view name) -> std::optional<Value> {
    for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      arguments.named.erase(it);
      return value;
    }
    return std::nullopt;
  };
  std::vector<std::optional<Value>> given(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    given[i] =
        i < positional.size() ? std::optional(positional[i]) : take_named(parameters[i].first);
    if (given[i]) OUTRIDER_RETURN_IF_ERROR(scope.Set(parameters[i].first, *given[i]));
  }
  // A default may refer to the parameters before it.
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, fallback] = parameters[i];
    if (given[i]) continue;
    Value value;
    if (fallback != nullptr) {
      OUTRIDER_ASSIGN_OR_RETURN(value, Evaluate(*fallback));
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(
          value, MakeUndefined(budget_, Concat("parameter '", name, "' was not provided")));
    }
    OUTRIDER_RETURN_IF_ERROR(scope.Set(name, std::move(value)));
  }
  if (definition.takes_extra_named) {
    Entries entries;
    for (auto& [name, value] : arguments.named) {
      OUTRIDER_ASSIGN_OR_RETURN(Value key, MakeText(budget_, name));
      entries.emplace_back(std::move(key), std::move(value));
    }
    OUTRIDER_ASSIGN_OR_RETURN(Value extra, MakeDict(budget_, std::move(entries)));
    OUTRIDER_RETURN_IF_ERROR(scope.Set("kwargs", std::move(extra)));
  } else if (!arguments.named.empty()) {
    return InvalidArgument("the macro '", definition.name, "' takes no keyword argument '",
                           arguments.named.front().first, "'");
  }
  if (definition.takes_extra_positional) {
    std::vector<Value> extra;
    for (size_t i = parameters.size(); i < positional.size(); ++i) extra.push_back(positional[i]);
    OUTRIDER_ASSIGN_OR_RETURN(Value tuple, MakeTuple(budget_, std::move(extra)));
    OUTRIDER_RETURN_IF_ERROR(scope.Set("varargs", std::move(tuple)));
  } else if (positional.size() > parameters.size()) {
    return InvalidArgument("the macro '", definition.name, "' takes at most ", parameters.size(),
                           " arguments, ", positional.size(), " were given");
  }
  return absl::OkStatus();
}

}  // namespace outrider::jinja
