#include "common/text/jinja/parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/text/jinja/expression_parser.h"

namespace outrider::jinja {

namespace {

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  // Statements up to a tag named in `ends`, which is taken and kept in end_tag(), or up to the end
  // of the template when there are none.
  absl::StatusOr<Statements> ParseBody(std::initializer_list<std::string_view> ends);

 private:
  const std::string& end_tag() const { return end_tag_; }

  using ParsedStatement = absl::StatusOr<Statement>;
  ParsedStatement ParseStatement();
  ParsedStatement ParseFor(int line);
  ParsedStatement ParseIf(int line);
  ParsedStatement ParseSet(int line);
  ParsedStatement ParseMacro(int line);
  ParsedStatement ParseWith(int line);
  ParsedStatement ParseFilterBlock(int line);
  ParsedStatement ParseGeneration(int line);
  ParsedStatement ParseLoopControl(int line, const std::string& tag);
  absl::Status ParseParameters(MacroDefinition& macro);
  absl::Status UnknownTag(int line, const std::string& tag) const;

  // `with_tuple`: whether (a, b) and a.b may stand there.
  absl::StatusOr<Target> ParseTarget(bool with_attribute, std::string_view end_name = {});
  absl::StatusOr<Target> ParseTargetItem(bool with_attribute);

  // The statements of a block whose opening tag ends here.
  absl::StatusOr<Statements> ParseBlock(std::initializer_list<std::string_view> ends);
  // The same, where `break` cannot reach a loop outside.
  absl::StatusOr<Statements> ParseSealedBlock(std::string_view end);

  std::string end_tag_;
  int loops_ = 0;  // that a break would end
};

absl::StatusOr<Statements> TemplateParser::ParseBody(std::initializer_list<std::string_view> ends) {
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  Statements body;
  while (!current().is(TokenType::kEnd)) {
    const int line = current().line;
    if (current().is(TokenType::kData)) {
      body.push_back({line, Data{Take().text}});
    } else if (current().is(TokenType::kVariableBegin)) {
      Take();
      OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr expression, ParseTuple());
      OUTRIDER_RETURN_IF_ERROR(Expect(TokenType::kVariableEnd));
      body.push_back({line, Output{std::move(expression)}});
    } else {
      Take();  // {%
      const bool is_end = current().is(TokenType::kName) &&
                          std::find(ends.begin(), ends.end(), current().text) != ends.end();
      if (is_end) {
        end_tag_ = Take().text;
        return body;
      }
      OUTRIDER_ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      OUTRIDER_RETURN_IF_ERROR(Expect(TokenType::kBlockEnd));
      body.push_back(std::move(statement));
    }
  }
  if (ends.size() == 0) return body;
  return Fail("'", std::rbegin(ends)[0], "' is missing at the end of the template");
}

absl::StatusOr<Statements> TemplateParser::ParseBlock(
    std::initializer_list<std::string_view> ends) {
  TakeOperator(":");  // for those who write Python
  OUTRIDER_RETURN_IF_ERROR(Expect(TokenType::kBlockEnd));
  return ParseBody(ends);
}

absl::StatusOr<Statements> TemplateParser::ParseSealedBlock(std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  absl::StatusOr<Statements> body = ParseBlock({end});
  loops_ = outer_loops;
  return body;
}

TemplateParser::ParsedStatement TemplateParser::ParseStatement() {
  if (!current().is(TokenType::kName)) return Fail("expected a tag, got ", Describe(current()));
  const Token tag = Take();
  if (tag.text == "for") return ParseFor(tag.line);
  if (tag.text == "if") return ParseIf(tag.line);
  if (tag.text == "set") return ParseSet(tag.line);
  if (tag.text == "macro") return ParseMacro(tag.line);
  if (tag.text == "with") return ParseWith(tag.line);
  if (tag.text == "filter") return ParseFilterBlock(tag.line);
  if (tag.text == "generation") return ParseGeneration(tag.line);
  if (tag.text == "break" || tag.text == "continue") return ParseLoopControl(tag.line, tag.text);
  return UnknownTag(tag.line, tag.text);
}

absl::Status TemplateParser::UnknownTag(int line, const std::string& tag) const {
  static constexpr std::string_view kOthersOfJinja[] = {"autoescape", "block", "call",   "do",
                                                        "extends",    "from",  "import", "include",
                                                        "print",      "trans", "debug"};
  if (std::find(std::begin(kOthersOfJinja), std::end(kOthersOfJinja), tag) !=
      std::end(kOthersOfJinja)) {
    return Unsupported(line, Concat("'", tag, "'"));
  }
  return FailAt(line, "unknown tag '", tag, "'");
}

TemplateParser::ParsedStatement TemplateParser::ParseFor(int line) {
  For loop;
  OUTRIDER_ASSIGN_OR_RETURN(loop.target, ParseTarget(false, "in"));
  if (!TakeName("in")) return Fail("expected 'in', got ", Describe(current()));
  OUTRIDER_ASSIGN_OR_RETURN(loop.source, ParseTuple(false, "recursive"));
  if (TakeName("if")) {
    OUTRIDER_ASSIGN_OR_RETURN(loop.filter, ParseExpression());
  }
  if (current().is(TokenType::kName, "recursive")) return Unsupported(line, "a recursive loop");
  ++loops_;
  OUTRIDER_ASSIGN_OR_RETURN(loop.body, ParseBlock({"else", "endfor"}));
  --loops_;
  if (end_tag() == "else") {
    OUTRIDER_ASSIGN_OR_RETURN(loop.otherwise, ParseBlock({"endfor"}));
  }
  return Statement{line, std::move(loop)};
}

TemplateParser::ParsedStatement TemplateParser::ParseIf(int line) {
  If choice;
  do {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr test, ParseTuple(false));
    OUTRIDER_ASSIGN_OR_RETURN(Statements body, ParseBlock({"elif", "else", "endif"}));
    choice.branches.emplace_back(std::move(test), std::move(body));
  } while (end_tag() == "elif");
  if (end_tag() == "else") {
    OUTRIDER_ASSIGN_OR_RETURN(choice.otherwise, ParseBlock({"endif"}));
  }
  return Statement{line, std::move(choice)};
}

TemplateParser::ParsedStatement TemplateParser::ParseSet(int line) {
  OUTRIDER_ASSIGN_OR_RETURN(Target target, ParseTarget(true));
  if (TakeOperator("=")) {
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple());
    return Statement{line, Set{std::move(target), std::move(value)}};
  }
  SetBlock block{std::move(target), nullptr, {}};
  OUTRIDER_ASSIGN_OR_RETURN(block.filter, ParseFilters(nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(block.body, ParseBlock({"endset"}));
  return Statement{line, std::move(block)};
}

TemplateParser::ParsedStatement TemplateParser::ParseMacro(int line) {
  MacroDefinition macro;
  OUTRIDER_ASSIGN_OR_RETURN(macro.name, ExpectName());
  OUTRIDER_RETURN_IF_ERROR(ParseParameters(macro));
  const SpecialNames outer = std::exchange(special_names(), SpecialNames());
  OUTRIDER_ASSIGN_OR_RETURN(macro.body, ParseSealedBlock("endmacro"));
  const SpecialNames inner = std::exchange(special_names(), outer);
  const auto is_parameter = [&macro](std::string_view name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [name](const auto& parameter) { return parameter.first == name; });
  };
  macro.takes_extra_positional = inner.varargs && !is_parameter("varargs");
  macro.takes_extra_named = inner.kwargs && !is_parameter("kwargs");
  return Statement{line, std::move(macro)};
}

absl::Status TemplateParser::ParseParameters(MacroDefinition& macro) {
  OUTRIDER_RETURN_IF_ERROR(ExpectOperator("("));
  while (!current().is(TokenType::kOperator, ")")) {
    if (!macro.parameters.empty()) OUTRIDER_RETURN_IF_ERROR(ExpectOperator(","));
    OUTRIDER_ASSIGN_OR_RETURN(std::string name, ExpectName());
    ExpressionPtr fallback;
    if (TakeOperator("=")) {
      OUTRIDER_ASSIGN_OR_RETURN(fallback, ParseExpression());
    } else if (!macro.parameters.empty() && macro.parameters.back().second != nullptr) {
      return Fail("the parameter '", name, "' without a default follows one that has one");
    }
    macro.parameters.emplace_back(std::move(name), std::move(fallback));
  }
  return ExpectOperator(")");
}

TemplateParser::ParsedStatement TemplateParser::ParseWith(int line) {
  With with;
  while (!current().is(TokenType::kBlockEnd)) {
    if (!with.bindings.empty()) OUTRIDER_RETURN_IF_ERROR(ExpectOperator(","));
    OUTRIDER_ASSIGN_OR_RETURN(Target target, ParseTargetItem(false));
    OUTRIDER_RETURN_IF_ERROR(ExpectOperator("="));
    OUTRIDER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    with.bindings.emplace_back(std::move(target), std::move(value));
  }
  OUTRIDER_ASSIGN_OR_RETURN(with.body, ParseBlock({"endwith"}));
  return Statement{line, std::move(with)};
}

TemplateParser::ParsedStatement TemplateParser::ParseFilterBlock(int line) {
  FilterBlock block;
  OUTRIDER_ASSIGN_OR_RETURN(block.filter, ParseFilter(nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(block.filter, ParseFilters(std::move(block.filter)));
  OUTRIDER_ASSIGN_OR_RETURN(block.body, ParseBlock({"endfilter"}));
  return Statement{line, std::move(block)};
}

TemplateParser::ParsedStatement TemplateParser::ParseGeneration(int line) {
  Generation generation;
  OUTRIDER_ASSIGN_OR_RETURN(generation.body, ParseSealedBlock("endgeneration"));
  return Statement{line, std::move(generation)};
}

TemplateParser::ParsedStatement TemplateParser::ParseLoopControl(int line, const std::string& tag) {
  if (loops_ == 0) return FailAt(line, "'", tag, "' outside of a loop");
  if (tag == "break") return Statement{line, Break{}};
  return Statement{line, Continue{}};
}

absl::StatusOr<Target> TemplateParser::ParseTarget(bool with_attribute, std::string_view end_name) {
  const Level level(*this);
  OUTRIDER_RETURN_IF_ERROR(CheckLevel());
  Target tuple{current().line, "", "", true, {}};
  bool is_tuple = false;
  while (!current().is(TokenType::kBlockEnd) && !current().is(TokenType::kOperator, "=") &&
         !current().is(TokenType::kOperator, ")") &&
         (end_name.empty() || !current().is(TokenType::kName, end_name))) {
    OUTRIDER_ASSIGN_OR_RETURN(Target item, ParseTargetItem(with_attribute));
    tuple.items.push_back(std::move(item));
    if (!TakeOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple.items.empty()) return Fail("expected a name, got ", Describe(current()));
  return std::move(tuple.items[0]);
}

absl::StatusOr<Target> TemplateParser::ParseTargetItem(bool with_attribute) {
  static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                    "False", "none", "None"};
  const int line = current().line;
  if (TakeOperator("(")) {
    OUTRIDER_ASSIGN_OR_RETURN(Target inner, ParseTarget(false));
    OUTRIDER_RETURN_IF_ERROR(ExpectOperator(")"));
    return inner;
  }
  Target target{line, "", "", false, {}};
  OUTRIDER_ASSIGN_OR_RETURN(target.name, ExpectName());
  if (std::find(std::begin(kConstants), std::end(kConstants), target.name) !=
      std::end(kConstants)) {
    return FailAt(line, "cannot assign to '", target.name, "'");
  }
  if (with_attribute && TakeOperator(".")) {
    OUTRIDER_ASSIGN_OR_RETURN(target.attribute, ExpectName());
  }
  return target;
}

}  // namespace

absl::StatusOr<Statements> ParseTemplate(std::string_view source) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return TemplateParser(std::move(tokens)).ParseBody({});
}

}  // namespace outrider::jinja
