// A parsed template: statements that hold expressions, both bounded in height so that whatever
// walks them may be recursive. Immutable once parsed; renderings on several threads may share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/tests.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Expressions = std::vector<ExpressionPtr>;

// f(a, b=c, *d, **e)
struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;  // null when absent
};

struct Literal {
  Value value;
};
struct NameLookup {
  std::string name;
};
struct ListDisplay {
  Kind kind;  // kList or kTuple
  Expressions items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct UnaryOperation {
  enum class Operator : uint8_t { kNot, kMinus, kPlus };
  Operator op;
  ExpressionPtr operand;
};
struct BinaryOperation {
  Arithmetic op;
  ExpressionPtr left, right;
};
struct LogicOperation {  // stops at the first operand that decides, and is that operand
  bool is_and;
  ExpressionPtr left, right;
};
struct ComparisonChain {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Concatenation {  // a ~ b ~ c
  Expressions parts;
};
struct Conditional {
  ExpressionPtr test, yes, no;  // `no` may be null: undefined then
};
struct AttributeLookup {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct ItemLookup {  // object[key]
  ExpressionPtr object, key;
};
struct SliceLookup {  // object[start:stop:step], each of the three may be null
  ExpressionPtr object, start, stop, step;
};
struct CallExpression {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterExpression {
  ExpressionPtr subject;  // null: what the enclosing block rendered
  const Filter* filter;
  CallArguments arguments;
};
struct TestExpression {
  ExpressionPtr subject;
  const Test* test;
  CallArguments arguments;
};

struct Expression {
  int line;
  int height;  // 1 + that of the highest operand
  std::variant<Literal, NameLookup, ListDisplay, DictDisplay, UnaryOperation, BinaryOperation,
               LogicOperation, ComparisonChain, Concatenation, Conditional, AttributeLookup,
               ItemLookup, SliceLookup, CallExpression, FilterExpression, TestExpression>
      node;
};

// The height of the highest part of an expression.
int HeightBelow(const Expression& expression);

// What an assignment writes: x, ns.x, or (a, b) of these.
struct Target {
  int line = 0;
  std::string name;       // empty for a tuple
  std::string attribute;  // of the namespace `name`; empty for a plain name
  bool is_tuple = false;
  std::vector<Target> items;
};

struct Statement;
using Statements = std::vector<Statement>;

struct Data {
  std::string text;
};
struct Output {
  ExpressionPtr expression;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Statements>> branches;
  Statements otherwise;
};
struct For {
  Target target;
  ExpressionPtr source;
  ExpressionPtr filter;  // may be null
  Statements body;
  Statements otherwise;  // rendered when no body ran to its end
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Statements body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Statements body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Statements body;
};
struct Generation {  // {% generation %}: marks what the model said; rendered as it is
  Statements body;
};
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with their defaults, or null
  bool takes_extra_positional = false;                            // the body says `varargs`
  bool takes_extra_named = false;                                 // the body says `kwargs`
  Statements body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Output, If, For, Set, SetBlock, FilterBlock, With, Generation, MacroDefinition,
               Break, Continue>
      node;
};

}  // namespace outrider::jinja
