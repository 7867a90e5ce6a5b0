// The half of the interpreter that evaluates expressions.
#include <utility>

#include "common/base/status.h"
#include "common/text/jinja/attributes.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"

namespace outrider::jinja {

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
