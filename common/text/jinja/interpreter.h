// Runs a parsed template.
//
// A tree walker: each statement appends to the output, each expression gives a value. Names live in
// scopes as Jinja has them: loops, macros and blocks that capture open one, `if` does not. Values
// and work are bounded by the RenderState's budget.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/objects.h"

namespace outrider::jinja {

class Interpreter {
 public:
  // `scope` holds what the template is given. Both must outlive the interpreter.
  Interpreter(RenderState& state, std::shared_ptr<Scope> scope)
      : state_(state), budget_(state.budget), scope_(std::move(scope)) {}

  // Errors begin with "line N: ".
  absl::StatusOr<std::string> Run(const Statements& statements);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  using FlowOr = absl::StatusOr<Flow>;
  class ScopeGuard;
  class Capture;

  FlowOr Execute(const Statements& statements);
  FlowOr ExecuteNode(const Data& node);
  FlowOr ExecuteNode(const Output& node);
  FlowOr ExecuteNode(const If& node);
  FlowOr ExecuteNode(const For& node);
  FlowOr ExecuteNode(const Set& node);
  FlowOr ExecuteNode(const SetBlock& node);
  FlowOr ExecuteNode(const FilterBlock& node);
  FlowOr ExecuteNode(const With& node);
  FlowOr ExecuteNode(const Generation& node);
  FlowOr ExecuteNode(const MacroDefinition& node);
  FlowOr ExecuteNode(const Break& node);
  FlowOr ExecuteNode(const Continue& node);

  Result Evaluate(const Expression& expression);
  Result EvaluateNode(const Literal& node);
  Result EvaluateNode(const NameLookup& node);
  Result EvaluateNode(const ListDisplay& node);
  Result EvaluateNode(const DictDisplay& node);
  Result EvaluateNode(const UnaryOperation& node);
  Result EvaluateNode(const BinaryOperation& node);
  Result EvaluateNode(const LogicOperation& node);
  Result EvaluateNode(const ComparisonChain& node);
  Result EvaluateNode(const Concatenation& node);
  Result EvaluateNode(const Conditional& node);
  Result EvaluateNode(const AttributeLookup& node);
  Result EvaluateNode(const ItemLookup& node);
  Result EvaluateNode(const SliceLookup& node);
  Result EvaluateNode(const CallExpression& node);
  Result EvaluateNode(const FilterExpression& node);
  Result EvaluateNode(const TestExpression& node);
  // None where there is no expression.
  Result EvaluateOptional(const ExpressionPtr& expression);
  absl::StatusOr<bool> EvaluateTruth(const ExpressionPtr& expression);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& arguments);

  absl::Status Assign(const Target& target, const Value& value);
  absl::Status AssignTuple(const Target& target, const Value& value);
  absl::StatusOr<std::shared_ptr<Scope>> NewScope(std::shared_ptr<Scope> parent);
  absl::Status Print(std::string_view text);
  absl::Status Print(const Value& value);

  Result CallMacro(const Macro& macro, Arguments arguments);
  absl::Status BindMacro(const Macro& macro, Arguments arguments, Scope& scope);

  // The loop proper; whether some body ran to its end.
  absl::StatusOr<bool> RunLoop(const For& node, const std::shared_ptr<Loop>& loop);
  // The next item that passes the loop's filter.
  absl::StatusOr<std::optional<Value>> TakeItem(Loop& loop);
  absl::StatusOr<std::optional<Value>> PullItem(Loop& loop);
  // Looks as far ahead as the attribute needs.
  absl::Status LookAhead(Loop& loop, std::string_view attribute);

  RenderState& state_;
  Budget& budget_;
  std::shared_ptr<Scope> scope_;
  std::string* output_ = nullptr;
  Value rendered_;      // by a block, for its filter
  int error_line_ = 0;  // of the innermost expression or statement that failed
};

}  // namespace outrider::jinja
