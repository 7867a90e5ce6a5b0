#include "common/text/jinja/ast.h"

#include <algorithm>

namespace outrider::jinja {

namespace {

int Height(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->height;
}
int Height(const Expressions& expressions) {
  int height = 0;
  for (const ExpressionPtr& expression : expressions) height = std::max(height, Height(expression));
  return height;
}
int Height(const CallArguments& arguments) {
  int height = std::max(
      {Height(arguments.positional), Height(arguments.star), Height(arguments.double_star)});
  for (const auto& [name, value] : arguments.named) height = std::max(height, Height(value));
  return height;
}

// The highest part below each kind of node.
struct HeightVisitor {
  int operator()(const Literal&) const { return 0; }
  int operator()(const NameLookup&) const { return 0; }
  int operator()(const ListDisplay& node) const { return Height(node.items); }
  int operator()(const DictDisplay& node) const {
    int height = 0;
    for (const auto& [key, value] : node.entries) {
      height = std::max({height, Height(key), Height(value)});
    }
    return height;
  }
  int operator()(const UnaryOperation& node) const { return Height(node.operand); }
  int operator()(const BinaryOperation& node) const {
    return std::max(Height(node.left), Height(node.right));
  }
  int operator()(const LogicOperation& node) const {
    return std::max(Height(node.left), Height(node.right));
  }
  int operator()(const ComparisonChain& node) const {
    int height = Height(node.first);
    for (const auto& [op, operand] : node.rest) height = std::max(height, Height(operand));
    return height;
  }
  int operator()(const Concatenation& node) const { return Height(node.parts); }
  int operator()(const Conditional& node) const {
    return std::max({Height(node.test), Height(node.yes), Height(node.no)});
  }
  int operator()(const AttributeLookup& node) const { return Height(node.object); }
  int operator()(const ItemLookup& node) const {
    return std::max(Height(node.object), Height(node.key));
  }
  int operator()(const SliceLookup& node) const {
    return std::max(
        {Height(node.object), Height(node.start), Height(node.stop), Height(node.step)});
  }
  int operator()(const CallExpression& node) const {
    return std::max(Height(node.callee), Height(node.arguments));
  }
  int operator()(const FilterExpression& node) const {
    return std::max(Height(node.subject), Height(node.arguments));
  }
  int operator()(const TestExpression& node) const {
    return std::max(Height(node.subject), Height(node.arguments));
  }
};

}  // namespace

int HeightBelow(const Expression& expression) {
  return std::visit(HeightVisitor(), expression.node);
}

}  // namespace outrider::jinja
