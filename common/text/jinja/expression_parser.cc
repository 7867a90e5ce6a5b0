#include "common/text/jinja/expression_parser.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider::jinja {

template <typename Node>
ExpressionParser::Parsed ExpressionParser::Make(int line, Node node) {
  auto expression = std::make_unique<Expression>(Expression{line, 0, std::move(node)});
  expression->height = 1 + HeightBelow(*expression);
  if (expression->height > kMaxHeight) {
    return Unsupported(line, Concat("an expression of more than ", kMaxHeight, " levels"));
  }
  return expression;
}

absl::Status ExpressionParser::CheckLevel() const {
  if (level_ <= kMaxHeight) return absl::OkStatus();
  return Unsupported(current().line, Concat("nesting of more than ", kMaxHeight, " levels"));
}

std::string ExpressionParser::Describe(const Token& token) const {
  switch (token.type) {
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kData:
      return "text";
    case TokenType::kString:
      return Concat("the string '", token.text, "'");
    default:
      return Concat("'", token.text, "'");
  }
}

Token ExpressionParser::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;  // the end is never passed
  return token;
}

bool ExpressionParser::TakeName(std::string_view name) {
  if (!current().is(TokenType::kName, name)) return false;
  Take();
  return true;
}

bool ExpressionParser::TakeOperator(std::string_view op) {
  if (!current().is(TokenType::kOperator, op)) return false;
  Take();
  return true;
}

absl::Status ExpressionParser::ExpectOperator(std::string_view op) {
  if (TakeOperator(op)) return absl::OkStatus();
  return Fail("expected '", op, "', got ", Describe(current()));
}

absl::Status ExpressionParser::Expect(TokenType type) {
  if (current().is(type)) {
    Take();
    return absl::OkStatus();
  }
  return Fail("expected the end of the ", type == TokenType::kBlockEnd ? "statement" : "expression",
              ", got ", Describe(current()));
}

absl::StatusOr<std::string> ExpressionParser::ExpectName() {
  if (!current().is(TokenType::kName)) {
    return Fail("expected a name, got ", Describe(current()));
  }
  return Take().text;
}

ExpressionParser::Parsed ExpressionParser::ParseExpression() {
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  return ParseConditional();
}

ExpressionParser::Parsed ExpressionParser::ParseTuple(bool with_conditional,
                                                      std::string_view end_name) {
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  const int line = current().line;
  const auto at_end = [&] {
    return current().is(TokenType::kVariableEnd) || current().is(TokenType::kBlockEnd) ||
           current().is(TokenType::kOperator, ")") ||
           (!end_name.empty() && current().is(TokenType::kName, end_name));
  };
  Expressions items;
  bool is_tuple = false;
  while (!at_end()) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr item,
                              with_conditional ? ParseConditional() : ParseOr());
    items.push_back(std::move(item));
    if (!TakeOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return Make(line, ListDisplay{Kind::kTuple, std::move(items)});
  if (items.empty()) return Fail("expected an expression, got ", Describe(current()));
  return std::move(items[0]);
}

ExpressionParser::Parsed ExpressionParser::ParseConditional() {
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr result, ParseOr());
  while (current().is(TokenType::kName, "if")) {
    const int line = Take().line;
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr test, ParseOr());
    ExpressionPtr no;
    if (TakeName("else")) {
      const Level level(*this);
      OUTRIDER_RETURN_IF_ERROR(CheckLevel());
      OUTRIDER_ASSIGN_OR_RETURN(no, ParseConditional());
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        result, Make(line, Conditional{std::move(test), std::move(result), std::move(no)}));
  }
  return result;
}

ExpressionParser::Parsed ExpressionParser::ParseOr() {
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (current().is(TokenType::kName, "or")) {
    const int line = Take().line;
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    OUTRIDER_ASSIGN_OR_RETURN(left,
                              Make(line, LogicOperation{false, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseAnd() {
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (current().is(TokenType::kName, "and")) {
    const int line = Take().line;
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    OUTRIDER_ASSIGN_OR_RETURN(left,
                              Make(line, LogicOperation{true, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseNot() {
  if (!current().is(TokenType::kName, "not")) return ParseComparison();
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  const int line = Take().line;
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return Make(line, UnaryOperation{UnaryOperation::Operator::kNot, std::move(operand)});
}

std::optional<Comparison> ExpressionParser::TakeComparison() {
  static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessOrEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterOrEqual},
  };
  for (const auto& [text, comparison] : kComparisons) {
    if (TakeOperator(text)) return comparison;
  }
  if (TakeName("in")) return Comparison::kIn;
  if (current().is(TokenType::kName, "not") && following().is(TokenType::kName, "in")) {
    Take();
    Take();
    return Comparison::kNotIn;
  }
  return std::nullopt;
}

ExpressionParser::Parsed ExpressionParser::ParseComparison() {
  const int line = current().line;
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  ComparisonChain chain;
  while (const std::optional<Comparison> comparison = TakeComparison()) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    chain.rest.emplace_back(*comparison, std::move(operand));
  }
  if (chain.rest.empty()) return first;
  chain.first = std::move(first);
  return Make(line, std::move(chain));
}

ExpressionParser::Parsed ExpressionParser::ParseSum() {
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenation());
  while (current().is(TokenType::kOperator, "+") || current().is(TokenType::kOperator, "-")) {
    const Token op = Take();
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    OUTRIDER_ASSIGN_OR_RETURN(
        left,
        Make(op.line, BinaryOperation{op.text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract,
                                      std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseConcatenation() {
  const int line = current().line;
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!current().is(TokenType::kOperator, "~")) return first;
  Concatenation joined;
  joined.parts.push_back(std::move(first));
  while (TakeOperator("~")) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    joined.parts.push_back(std::move(part));
  }
  return Make(line, std::move(joined));
}

ExpressionParser::Parsed ExpressionParser::ParseProduct() {
  static constexpr std::pair<std::string_view, Arithmetic> kProducts[] = {
      {"*", Arithmetic::kMultiply},
      {"/", Arithmetic::kDivide},
      {"//", Arithmetic::kFloorDivide},
      {"%", Arithmetic::kModulo},
  };
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr left, ParsePower());
  while (current().is(TokenType::kOperator)) {
    const auto* const found =
        std::find_if(std::begin(kProducts), std::end(kProducts),
                     [this](const auto& entry) { return entry.first == current().text; });
    if (found == std::end(kProducts)) break;
    const int line = Take().line;
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    OUTRIDER_ASSIGN_OR_RETURN(
        left, Make(line, BinaryOperation{found->second, std::move(left), std::move(right)}));
  }
  return left;
}

// Left to right, unlike Python's.
ExpressionParser::Parsed ExpressionParser::ParsePower() {
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(true));
  while (current().is(TokenType::kOperator, "**")) {
    const int line = Take().line;
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    OUTRIDER_ASSIGN_OR_RETURN(
        left, Make(line, BinaryOperation{Arithmetic::kPower, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseUnary(bool with_filter) {
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  ExpressionPtr node;
  if (current().is(TokenType::kOperator, "-") || current().is(TokenType::kOperator, "+")) {
    const Token sign = Take();
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(false));
    const auto op =
        sign.text == "-" ? UnaryOperation::Operator::kMinus : UnaryOperation::Operator::kPlus;
    OUTRIDER_ASSIGN_OR_RETURN(node, Make(sign.line, UnaryOperation{op, std::move(operand)}));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  OUTRIDER_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (!with_filter) return node;
  return ParseFiltersAndTests(std::move(node));
}

ExpressionParser::Parsed ExpressionParser::ParsePrimary() {
  const int line = current().line;
  switch (current().type) {
    case TokenType::kName:
      return ParseNameOrConstant();
    case TokenType::kString: {
      std::string text = Take().text;
      while (current().is(TokenType::kString)) text += Take().text;  // "a" "b" is "ab"
      return Make(line, Literal{LiteralText(std::move(text))});
    }
    case TokenType::kInteger:
      return Make(line, Literal{Value::Int(Take().integer)});
    case TokenType::kFloat:
      return Make(line, Literal{Value::Float(Take().real)});
    default:
      break;
  }
  if (TakeOperator("(")) {
    if (TakeOperator(")")) return Make(line, ListDisplay{Kind::kTuple, {}});
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple());
    OUTRIDER_RETURN_IF_ERROR(ExpectOperator(")"));
    return inner;
  }
  if (TakeOperator("[")) return ParseList();
  if (TakeOperator("{")) return ParseDict();
  return Fail("unexpected ", Describe(current()));
}

ExpressionParser::Parsed ExpressionParser::ParseNameOrConstant() {
  const Token token = Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return Make(token.line, Literal{Value::Bool(true)});
  if (name == "false" || name == "False") return Make(token.line, Literal{Value::Bool(false)});
  if (name == "none" || name == "None") return Make(token.line, Literal{Value::None()});
  special_names_.varargs |= name == "varargs";
  special_names_.kwargs |= name == "kwargs";
  return Make(token.line, NameLookup{name});
}

ExpressionParser::Parsed ExpressionParser::ParseList() {
  const int line = current().line;
  ListDisplay list{Kind::kList, {}};
  while (!current().is(TokenType::kOperator, "]")) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    list.items.push_back(std::move(item));
    if (!TakeOperator(",")) break;
  }
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator("]"));
  return Make(line, std::move(list));
}

ExpressionParser::Parsed ExpressionParser::ParseDict() {
  const int line = current().line;
  DictDisplay dict;
  while (!current().is(TokenType::kOperator, "}")) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    OUTRIDER_RETURN_IF_ERROR(ExpectOperator(":"));
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!TakeOperator(",")) break;
  }
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator("}"));
  return Make(line, std::move(dict));
}

ExpressionParser::Parsed ExpressionParser::ParsePostfix(ExpressionPtr subject) {
  while (current().is(TokenType::kOperator)) {
    if (current().text == ".") {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseDot(std::move(subject)));
    } else if (current().text == "[") {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseSubscript(std::move(subject)));
    } else if (current().text == "(") {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseCall(std::move(subject)));
    } else {
      break;
    }
  }
  return subject;
}

ExpressionParser::Parsed ExpressionParser::ParseDot(ExpressionPtr subject) {
  const int line = Take().line;
  const Token attribute = Take();
  if (attribute.is(TokenType::kName)) {
    return Make(line, AttributeLookup{std::move(subject), attribute.text});
  }
  if (!attribute.is(TokenType::kInteger)) {
    return FailAt(attribute.line, "expected a name or a number after '.'");
  }
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr key,
                            Make(attribute.line, Literal{Value::Int(attribute.integer)}));
  return Make(line, ItemLookup{std::move(subject), std::move(key)});
}

ExpressionParser::Parsed ExpressionParser::ParseSubscript(ExpressionPtr subject) {
  Take();
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr lookup, ParseSubscripted(std::move(subject)));
  if (current().is(TokenType::kOperator, ",")) {
    return Unsupported(current().line, "a subscript of several values");
  }
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator("]"));
  return lookup;
}

ExpressionParser::Parsed ExpressionParser::ParseSubscripted(ExpressionPtr subject) {
  const int line = current().line;
  SliceLookup slice;
  const auto bound_follows = [this] {
    return !current().is(TokenType::kOperator, ":") && !current().is(TokenType::kOperator, "]");
  };
  if (bound_follows()) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    if (!current().is(TokenType::kOperator, ":")) {
      return Make(line, ItemLookup{std::move(subject), std::move(key)});
    }
    slice.start = std::move(key);
  }
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator(":"));
  if (bound_follows()) {
    OUTRIDER_ASSIGN_OR_RETURN(slice.stop, ParseExpression());
  }
  if (TakeOperator(":") && bound_follows()) {
    OUTRIDER_ASSIGN_OR_RETURN(slice.step, ParseExpression());
  }
  slice.object = std::move(subject);
  return Make(line, std::move(slice));
}

ExpressionParser::Parsed ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = current().line;
  OUTRIDER_ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  return Make(line, CallExpression{std::move(callee), std::move(arguments)});
}

absl::StatusOr<CallArguments> ExpressionParser::ParseArguments() {
  const int line = current().line;
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator("("));
  CallArguments arguments;
  const auto misplaced = [&] {
    return FailAt(line, "the arguments of a call are in the wrong order");
  };
  while (!current().is(TokenType::kOperator, ")")) {
    if (TakeOperator("*")) {
      if (arguments.star != nullptr || arguments.double_star != nullptr) return misplaced();
      OUTRIDER_ASSIGN_OR_RETURN(arguments.star, ParseExpression());
    } else if (TakeOperator("**")) {
      if (arguments.double_star != nullptr) return misplaced();
      OUTRIDER_ASSIGN_OR_RETURN(arguments.double_star, ParseExpression());
    } else if (current().is(TokenType::kName) && following().is(TokenType::kOperator, "=")) {
      if (arguments.double_star != nullptr) return misplaced();
      std::string name = Take().text;
      Take();
      OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (arguments.star != nullptr || arguments.double_star != nullptr ||
          !arguments.named.empty()) {
        return misplaced();
      }
      OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.positional.push_back(std::move(value));
    }
    if (!TakeOperator(",")) break;
  }
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator(")"));
  return arguments;
}

ExpressionParser::Parsed ExpressionParser::ParseFiltersAndTests(ExpressionPtr subject) {
  while (true) {
    if (current().is(TokenType::kOperator, "|")) {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseFilters(std::move(subject)));
    } else if (current().is(TokenType::kName, "is")) {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseTest(std::move(subject)));
    } else if (current().is(TokenType::kOperator, "(")) {
      OUTRIDER_ASSIGN_OR_RETURN(subject, ParseCall(std::move(subject)));
    } else {
      return subject;
    }
  }
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  OUTRIDER_ASSIGN_OR_RETURN(std::string name, ExpectName());
  while (TakeOperator(".")) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string part, ExpectName());
    name += "." + part;
  }
  return name;
}

ExpressionParser::Parsed ExpressionParser::ParseFilters(ExpressionPtr subject) {
  while (TakeOperator("|")) {
    OUTRIDER_ASSIGN_OR_RETURN(subject, ParseFilter(std::move(subject)));
  }
  return subject;
}

ExpressionParser::Parsed ExpressionParser::ParseFilter(ExpressionPtr subject) {
  const int line = current().line;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
  FilterExpression node{std::move(subject), FindFilter(name), {}};
  if (node.filter == nullptr) return Unsupported(line, Concat("the filter '", name, "'"));
  if (current().is(TokenType::kOperator, "(")) {
    OUTRIDER_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  }
  return Make(line, std::move(node));
}

ExpressionParser::Parsed ExpressionParser::ParseTest(ExpressionPtr subject) {
  const int line = Take().line;
  const bool negated = TakeName("not");
  OUTRIDER_ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
  TestExpression node{std::move(subject), FindTest(name), {}};
  if (node.test == nullptr) return Unsupported(line, Concat("the test '", name, "'"));
  const Token& next = current();
  if (next.is(TokenType::kOperator, "(")) {
    OUTRIDER_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  } else if (next.is(TokenType::kOperator, "[") || next.is(TokenType::kOperator, "{") ||
             next.is(TokenType::kString) || next.is(TokenType::kInteger) ||
             next.is(TokenType::kFloat) ||
             (next.is(TokenType::kName) && next.text != "else" && next.text != "or" &&
              next.text != "and")) {
    // `is divisibleby 3`: one argument without parentheses.
    if (next.text == "is" && next.is(TokenType::kName)) return Fail("tests cannot be chained");
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    OUTRIDER_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    node.arguments.positional.push_back(std::move(argument));
  }
  OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr test, Make(line, std::move(node)));
  if (!negated) return test;
  return Make(line, UnaryOperation{UnaryOperation::Operator::kNot, std::move(test)});
}

}  // namespace outrider::jinja
