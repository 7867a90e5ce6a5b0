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

Interpreter::FlowOr Interpreter::ExecuteNode(const For& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value source, Evaluate(*node.source));
  OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(source));
  OUTRIDER_ASSIGN_OR_RETURN(auto loop, NewObject<Loop>(budget_, 0, cursor.depth() + 1));
  loop->source = std::move(cursor);
  loop->statement = &node;
  loop->outside = scope_;
  bool completed = false;  // a body has run to its end; Jinja's `else` asks no more than that
  while (true) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, TakeItem(*loop));
    if (!item) break;
    ++loop->index0;
    loop->previous = std::exchange(loop->current, *item);
    OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(scope_));
    const ScopeGuard guard(*this, std::move(scope));
    OUTRIDER_RETURN_IF_ERROR(Assign(node.target, *item));
    OUTRIDER_RETURN_IF_ERROR(scope_->Set("loop", Value(Kind::kLoop, loop)));
    OUTRIDER_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  if (completed || node.otherwise.empty()) return Flow::kNext;
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

absl::StatusOr<std::optional<Value>> Interpreter::TakeItem(Loop& loop) {
  if (loop.ahead.empty()) return PullItem(loop);
  std::optional<Value> item(std::move(loop.ahead.front()));
  loop.ahead.pop_front();
  return item;
}

absl::StatusOr<std::optional<Value>> Interpreter::PullItem(Loop& loop) {
  while (true) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, loop.source->Next(budget_));
    if (!item || loop.statement->filter == nullptr) return item;
    OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<Scope> scope, NewScope(loop.outside));
    const ScopeGuard guard(*this, std::move(scope));
    OUTRIDER_RETURN_IF_ERROR(Assign(loop.statement->target, *item));
    OUTRIDER_ASSIGN_OR_RETURN(const bool passes, EvaluateTruth(loop.statement->filter));
    if (passes) return item;
  }
}

absl::Status Interpreter::LookAhead(Loop& loop, std::string_view attribute) {
  const bool all = attribute == "length" || attribute == "revindex" || attribute == "revindex0";
  if (all && !loop.length && loop.statement->filter == nullptr) {
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

// Expressions.

Result Interpreter::Evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  OUTRIDER_RETURN_IF_ERROR(level.status());
  OUTRIDER_RETURN_IF_ERROR(budget_.Spend(1));
  Result result =
      std::visit([this](const auto& node) { return EvaluateNode(node); }, expression.node);
  if (!result.ok() && error_line_ == 0) error_line_ = expression.line;
  return result;
}

Result Interpreter::EvaluateOptional(const ExpressionPtr& expression) {
  return expression == nullptr ? Result(Value::None()) : Evaluate(*expression);
}

absl::StatusOr<bool> Interpreter::EvaluateTruth(const ExpressionPtr& expression) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression));
  return IsTrue(value);
}

Result Interpreter::EvaluateNode(const Literal& node) {
  return node.value;
}

Result Interpreter::EvaluateNode(const NameLookup& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value* found, scope_->Find(node.name));
  if (found == nullptr) found = FindGlobal(node.name);
  if (found != nullptr) return *found;
  if (IsUnsupportedGlobal(node.name)) return Unimplemented("'", node.name, "' is not supported");
  return MakeUndefined(budget_, Concat("'", node.name, "' is undefined"));
}

Result Interpreter::EvaluateNode(const ListDisplay& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& expression : node.items) {
    OUTRIDER_ASSIGN_OR_RETURN(Value item, Evaluate(*expression));
    items.push_back(std::move(item));
  }
  return node.kind == Kind::kList ? MakeList(budget_, std::move(items))
                                  : MakeTuple(budget_, std::move(items));
}

Result Interpreter::EvaluateNode(const DictDisplay& node) {
  Entries entries;
  for (const auto& [key_expression, value_expression] : node.entries) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, Evaluate(*key_expression));
    OUTRIDER_ASSIGN_OR_RETURN(Value value, Evaluate(*value_expression));
    OUTRIDER_RETURN_IF_ERROR(Insert(budget_, entries, std::move(key), std::move(value)));
  }
  return MakeDict(budget_, std::move(entries));
}

Result Interpreter::EvaluateNode(const UnaryOperation& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.operand));
  switch (node.op) {
    case UnaryOperation::Operator::kNot:
      return Value::Bool(!IsTrue(operand));
    case UnaryOperation::Operator::kMinus:
      return Negate(operand);
    case UnaryOperation::Operator::kPlus:
      return Plus(operand);
  }
  return Value();
}

Result Interpreter::EvaluateNode(const BinaryOperation& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.left));
  OUTRIDER_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.right));
  return Calculate(budget_, node.op, left, right);
}

Result Interpreter::EvaluateNode(const LogicOperation& node) {
  OUTRIDER_ASSIGN_OR_RETURN(Value left, Evaluate(*node.left));
  if (IsTrue(left) != node.is_and) return left;
  return Evaluate(*node.right);
}

Result Interpreter::EvaluateNode(const ComparisonChain& node) {
  OUTRIDER_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  for (const auto& [op, expression] : node.rest) {
    OUTRIDER_ASSIGN_OR_RETURN(Value right, Evaluate(*expression));
    OUTRIDER_ASSIGN_OR_RETURN(const bool holds, Compare(budget_, op, left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result Interpreter::EvaluateNode(const Concatenation& node) {
  std::string text;
  for (const ExpressionPtr& expression : node.parts) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value part, Evaluate(*expression));
    OUTRIDER_RETURN_IF_ERROR(AppendText(budget_, part, text));
  }
  return MakeText(budget_, std::move(text));
}

Result Interpreter::EvaluateNode(const Conditional& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const bool holds, EvaluateTruth(node.test));
  if (holds) return Evaluate(*node.yes);
  if (node.no != nullptr) return Evaluate(*node.no);
  return MakeUndefined(budget_, "the inline if-expression was false and has no else");
}

Result Interpreter::EvaluateNode(const AttributeLookup& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  if (object.is(Kind::kLoop)) OUTRIDER_RETURN_IF_ERROR(LookAhead(object.loop(), node.name));
  return GetAttribute(state_, object, node.name);
}

Result Interpreter::EvaluateNode(const ItemLookup& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  OUTRIDER_ASSIGN_OR_RETURN(const Value key, Evaluate(*node.key));
  if (object.is(Kind::kLoop) && key.is(Kind::kString)) {
    OUTRIDER_RETURN_IF_ERROR(LookAhead(object.loop(), key.text().bytes));
  }
  return GetItemOrAttribute(state_, object, key);
}

Result Interpreter::EvaluateNode(const SliceLookup& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  OUTRIDER_ASSIGN_OR_RETURN(const Value start, EvaluateOptional(node.start));
  OUTRIDER_ASSIGN_OR_RETURN(const Value stop, EvaluateOptional(node.stop));
  OUTRIDER_ASSIGN_OR_RETURN(const Value step, EvaluateOptional(node.step));
  return GetSlice(budget_, object, start, stop, step);
}

absl::StatusOr<Arguments> Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments evaluated;
  for (const ExpressionPtr& expression : arguments.positional) {
    OUTRIDER_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    evaluated.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : arguments.named) {
    OUTRIDER_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    evaluated.named.emplace_back(name, std::move(value));
  }
  if (arguments.star != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.star));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(budget_, more));
    evaluated.positional.insert(evaluated.positional.end(), items.begin(), items.end());
  }
  if (arguments.double_star != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.double_star));
    if (!more.is(Kind::kDict)) {
      return InvalidArgument("what follows ** must be a mapping, not ", TypeName(more));
    }
    OUTRIDER_RETURN_IF_ERROR(budget_.Spend(more.dict().entries.size()));
    for (const auto& [key, value] : more.dict().entries) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string_view name, ToText(key, "a keyword"));
      evaluated.named.emplace_back(name, value);
    }
  }
  return evaluated;
}

Result Interpreter::EvaluateNode(const CallExpression& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.callee));
  OUTRIDER_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(node.arguments));
  if (callee.is(Kind::kMacro)) return CallMacro(callee.macro(), std::move(arguments));
  return CallNative(state_, callee, arguments);
}

Result Interpreter::EvaluateNode(const FilterExpression& node) {
  Value subject;
  if (node.subject != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(subject, Evaluate(*node.subject));
  } else {
    subject = std::exchange(rendered_, Value());
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node.arguments));
  Result result = node.filter->apply(state_, subject, arguments);
  if (result.ok()) return result;
  return Annotate(result.status(), Concat("the filter '", node.filter->name, "'"));
}

Result Interpreter::EvaluateNode(const TestExpression& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value subject, Evaluate(*node.subject));
  OUTRIDER_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node.arguments));
  const absl::StatusOr<bool> answer = node.test->check(state_, subject, arguments);
  if (answer.ok()) return Value::Bool(*answer);
  return Annotate(answer.status(), Concat("the test '", node.test->name, "'"));
}

}  // namespace outrider::jinja
