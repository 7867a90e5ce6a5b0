#include "common/text/jinja/tests.h"

#include <algorithm>
#include <iterator>

#include "common/base/status.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"
#include "common/text/jinja/strings.h"

namespace outrider::jinja {

namespace {

using Answer = absl::StatusOr<bool>;

// Tests of the kind alone.
template <bool (*kIs)(const Value&)>
Answer Ask(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return kIs(subject);
}

template <Kind kKind>
bool Is(const Value& value) {
  return value.is(kKind);
}
bool IsDefined(const Value& value) {
  return !value.is(Kind::kUndefined);
}
bool IsNumber(const Value& value) {
  return value.is_number();
}
bool IsBoolTrue(const Value& value) {
  return value.is(Kind::kBool) && value.boolean();
}
bool IsBoolFalse(const Value& value) {
  return value.is(Kind::kBool) && !value.boolean();
}
bool IsEscaped(const Value& value) {
  return value.is(Kind::kString) && value.text().safe;
}
// What has a length and can be indexed. To Jinja an undefined value can.
bool IsSequence(const Value& value) {
  return value.is(Kind::kString) || value.is_sequence() || value.is(Kind::kDict) ||
         value.is(Kind::kRange) || value.is(Kind::kUndefined);
}
bool IsIterable(const Value& value) {
  return value.is(Kind::kLoop) || Cursor::Over(value).ok();
}
bool IsCallable(const Value& value) {
  switch (value.kind()) {
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop:
    case Kind::kUndefined:
      return true;
    default:
      return false;
  }
}

// subject op argument
template <Comparison kComparison>
Answer CompareWith(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  return Compare(state.budget, kComparison, subject, *bound[0]);
}

Answer HasRemainder(RenderState& state, const Value& subject, const Value& divisor,
                    int64_t remainder) {
  OUTRIDER_ASSIGN_OR_RETURN(const Value rest,
                            Calculate(state.budget, Arithmetic::kModulo, subject, divisor));
  return Equal(state.budget, rest, Value::Int(remainder));
}

template <int64_t kRemainder>
Answer HasParity(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return HasRemainder(state, subject, Value::Int(2), kRemainder);
}

Answer IsDivisibleBy(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"num"}, 1));
  return HasRemainder(state, subject, *bound[0], 0);
}

template <bool (*kPredicate)(std::string_view)>
Answer HasCase(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  OUTRIDER_RETURN_IF_ERROR(state.budget.Search(text.text().bytes.size()));
  return kPredicate(text.text().bytes);
}

Answer IsSameAs(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"other"}, 1));
  const Value& other = *bound[0];
  if (subject.kind() != other.kind()) return false;
  switch (subject.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return subject.boolean() == other.boolean();
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kString:
      // Python decides by where it happens to keep them.
      return Unimplemented("'sameas' between two values of type ", TypeName(subject),
                           " is not supported; use '=='");
    default:
      return subject.same_object(other);
  }
}

Answer IsFilterName(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return subject.is(Kind::kString) && FindFilter(subject.text().bytes) != nullptr;
}

Answer IsTestName(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return subject.is(Kind::kString) && FindTest(subject.text().bytes) != nullptr;
}

constexpr Test kTests[] = {
    {"!=", CompareWith<Comparison::kNotEqual>},
    {"<", CompareWith<Comparison::kLess>},
    {"<=", CompareWith<Comparison::kLessOrEqual>},
    {"==", CompareWith<Comparison::kEqual>},
    {">", CompareWith<Comparison::kGreater>},
    {">=", CompareWith<Comparison::kGreaterOrEqual>},
    {"boolean", Ask<Is<Kind::kBool>>},
    {"callable", Ask<IsCallable>},
    {"defined", Ask<IsDefined>},
    {"divisibleby", IsDivisibleBy},
    {"eq", CompareWith<Comparison::kEqual>},
    {"equalto", CompareWith<Comparison::kEqual>},
    {"escaped", Ask<IsEscaped>},
    {"even", HasParity<0>},
    {"false", Ask<IsBoolFalse>},
    {"filter", IsFilterName},
    {"float", Ask<Is<Kind::kFloat>>},
    {"ge", CompareWith<Comparison::kGreaterOrEqual>},
    {"greaterthan", CompareWith<Comparison::kGreater>},
    {"gt", CompareWith<Comparison::kGreater>},
    {"in", CompareWith<Comparison::kIn>},
    {"integer", Ask<Is<Kind::kInt>>},
    {"iterable", Ask<IsIterable>},
    {"le", CompareWith<Comparison::kLessOrEqual>},
    {"lessthan", CompareWith<Comparison::kLess>},
    {"lower", HasCase<IsLower>},
    {"lt", CompareWith<Comparison::kLess>},
    {"mapping", Ask<Is<Kind::kDict>>},
    {"ne", CompareWith<Comparison::kNotEqual>},
    {"none", Ask<Is<Kind::kNone>>},
    {"number", Ask<IsNumber>},
    {"odd", HasParity<1>},
    {"sameas", IsSameAs},
    {"sequence", Ask<IsSequence>},
    {"string", Ask<Is<Kind::kString>>},
    {"test", IsTestName},
    {"true", Ask<IsBoolTrue>},
    {"undefined", Ask<Is<Kind::kUndefined>>},
    {"upper", HasCase<IsUpper>},
};

}  // namespace

const Test* FindTest(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kTests), std::end(kTests),
                                         [name](const Test& test) { return test.name == name; });
  return found != std::end(kTests) ? found : nullptr;
}

}  // namespace outrider::jinja
