// The half of the parser that reads expressions; parser.cc builds statements around it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/lexer.h"

namespace outrider::jinja {

class ExpressionParser {
 public:
  // Higher than any template in use, low enough for the recursion that walks the tree.
  static constexpr int kMaxHeight = 100;

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take();
  bool TakeName(std::string_view name);
  bool TakeOperator(std::string_view op);
  absl::Status ExpectOperator(std::string_view op);
  absl::Status Expect(TokenType type);
  absl::StatusOr<std::string> ExpectName();

  using Parsed = absl::StatusOr<ExpressionPtr>;
  Parsed ParseExpression();
  // One expression, or a tuple where a comma follows. Without conditionals `a if b` ends before the
  // `if`.
  Parsed ParseTuple(bool with_conditional = true, std::string_view end_name = {});
  // The filters that follow, around `subject` (null: what a block renders).
  Parsed ParseFilters(ExpressionPtr subject);
  Parsed ParseFilter(ExpressionPtr subject);

  template <typename... Parts>
  absl::Status FailAt(int line, const Parts&... parts) const {
    return InvalidArgument("line ", line, ": ", parts...);
  }
  template <typename... Parts>
  absl::Status Fail(const Parts&... parts) const {
    return FailAt(current().line, parts...);
  }
  absl::Status Unsupported(int line, std::string_view construct) const {
    return Unimplemented("line ", line, ": ", construct, " is not supported");
  }
  std::string Describe(const Token& token) const;

  // Counts one level of the recursion of parsing for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) { ++parser_.level_; }
    ~Level() { --parser_.level_; }

   private:
    ExpressionParser& parser_;
  };
  absl::Status CheckLevel() const;

  // Which names have been read that mean something to a surrounding macro.
  struct SpecialNames {
    bool varargs = false, kwargs = false;
  };
  SpecialNames& special_names() { return special_names_; }

 private:
  Parsed ParseConditional();
  Parsed ParseOr();
  Parsed ParseAnd();
  Parsed ParseNot();
  Parsed ParseComparison();
  Parsed ParseSum();
  Parsed ParseConcatenation();
  Parsed ParseProduct();
  Parsed ParsePower();
  Parsed ParseUnary(bool with_filter);
  Parsed ParsePrimary();
  Parsed ParseNameOrConstant();
  Parsed ParsePostfix(ExpressionPtr subject);
  Parsed ParseFiltersAndTests(ExpressionPtr subject);
  Parsed ParseDot(ExpressionPtr subject);
  Parsed ParseSubscript(ExpressionPtr subject);
  Parsed ParseSubscripted(ExpressionPtr subject);
  Parsed ParseCall(ExpressionPtr callee);
  Parsed ParseTest(ExpressionPtr subject);
  Parsed ParseList();
  Parsed ParseDict();
  absl::StatusOr<CallArguments> ParseArguments();
  absl::StatusOr<std::string> ParseDottedName();

  std::optional<Comparison> TakeComparison();

  // Wraps a node up, unless the tree would become too high.
  template <typename Node>
  Parsed Make(int line, Node node);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0;
  SpecialNames special_names_;
};

}  // namespace outrider::jinja
