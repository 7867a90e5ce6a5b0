#include "common/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/print.h"
#include "common/text/jinja/strings.h"

namespace outrider::jinja {

namespace {

std::string_view Symbol(Arithmetic op) {
  switch (op) {
    case Arithmetic::kAdd:
      return "+";
    case Arithmetic::kSubtract:
      return "-";
    case Arithmetic::kMultiply:
      return "*";
    case Arithmetic::kDivide:
      return "/";
    case Arithmetic::kFloorDivide:
      return "//";
    case Arithmetic::kModulo:
      return "%";
    case Arithmetic::kPower:
      return "**";
  }
  return "";
}

absl::Status TooLarge() {
  return InvalidArgument("an integer grows beyond 64 bits");
}
absl::Status DivisionByZero() {
  return InvalidArgument("division by zero");
}

double AsReal(const Value& value) {
  return value.is(Kind::kFloat) ? value.real() : static_cast<double>(value.integer());
}

// Python rounds quotients down, C++ towards zero; and a remainder then has the divisor's sign.
int64_t FloorQuotient(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Result IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  // Square and multiply; a base beyond 64 bits only matters if it is still needed.
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Value::Int(result);
}

Result CalculateIntegers(Arithmetic op, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(left, right, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(left, right, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(left, right, &result)) return TooLarge();
      return Value::Int(result);
    case Arithmetic::kDivide:
      if (right == 0) return DivisionByZero();
      // `/` of integers is a float, also where it comes out even: 4 / 2 prints as 2.0.
      return Value::Float(static_cast<double>(left) / static_cast<double>(right));
    case Arithmetic::kFloorDivide:
    case Arithmetic::kModulo:
      if (right == 0) return DivisionByZero();
      if (right == -1) {  // the one quotient that overflows
        if (op == Arithmetic::kModulo) return Value::Int(0);
        return CalculateIntegers(Arithmetic::kSubtract, 0, left);
      }
      if (op == Arithmetic::kFloorDivide) return Value::Int(FloorQuotient(left, right));
      return Value::Int(left - FloorQuotient(left, right) * right);
    case Arithmetic::kPower:
      if (right >= 0) return IntegerPower(left, right);
      if (left == 0) return DivisionByZero();
      return Value::Float(std::pow(static_cast<double>(left), static_cast<double>(right)));
  }
  return Value();
}

Result CalculateReals(Arithmetic op, double left, double right) {
  switch (op) {
    case Arithmetic::kAdd:
      return Value::Float(left + right);
    case Arithmetic::kSubtract:
      return Value::Float(left - right);
    case Arithmetic::kMultiply:
      return Value::Float(left * right);
    case Arithmetic::kPower: {
      if (left == 0 && right < 0) return DivisionByZero();
      const double power = std::pow(left, right);
      if (left < 0 && std::isfinite(right) && right != std::floor(right)) {
        return InvalidArgument("a negative number to a fractional power is no real number");
      }
      if (std::isinf(power) && std::isfinite(left) && std::isfinite(right)) {
        return InvalidArgument("the result of '**' is too large");
      }
      return Value::Float(power);
    }
    default:
      break;
  }
  if (right == 0) return DivisionByZero();
  if (op == Arithmetic::kDivide) return Value::Float(left / right);
  // As CPython's float_divmod: the remainder has the sign of the divisor.
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0) {
    if ((right < 0) != (remainder < 0)) {
      remainder += right;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, right);
  }
  if (op == Arithmetic::kModulo) return Value::Float(remainder);
  // A quotient is a whole number but for the rounding of the division, so the nearest one is meant.
  if (quotient == 0) return Value::Float(std::copysign(0.0, left / right));
  const double floor = std::floor(quotient);
  return Value::Float(quotient - floor > 0.5 ? floor + 1 : floor);
}

Result Join(Budget& budget, const Value& left, const Value& right) {
  if (left.is(Kind::kString)) {
    return MakeText(budget, left.text().bytes + right.text().bytes);
  }
  const std::vector<Value>& first = left.sequence().items;
  const std::vector<Value>& second = right.sequence().items;
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(first.size() + second.size()));
  std::vector<Value> items;
  items.reserve(first.size() + second.size());
  items.insert(items.end(), first.begin(), first.end());
  items.insert(items.end(), second.begin(), second.end());
  return left.is(Kind::kList) ? MakeList(budget, std::move(items))
                              : MakeTuple(budget, std::move(items));
}

Result Repeat(Budget& budget, const Value& value, int64_t times) {
  const size_t count = times > 0 ? static_cast<size_t>(times) : 0;
  if (value.is(Kind::kString)) {
    const std::string& bytes = value.text().bytes;
    // Before anything is allocated.
    if (!bytes.empty() && count > Budget::kMaxTextBytes / bytes.size()) {
      return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
    }
    std::string out;
    out.reserve(bytes.size() * count);
    for (size_t i = 0; i < count && !bytes.empty(); ++i) out += bytes;
    return MakeText(budget, std::move(out));
  }
  const std::vector<Value>& items = value.sequence().items;
  if (!items.empty() && count > Budget::kMaxBytes / sizeof(Value) / items.size()) {
    return InvalidArgument("a list grows beyond ", Budget::kMaxBytes / sizeof(Value), " items");
  }
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(items.size() * count));
  std::vector<Value> out;
  out.reserve(items.size() * count);
  for (size_t i = 0; i < count && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return value.is(Kind::kList) ? MakeList(budget, std::move(out))
                               : MakeTuple(budget, std::move(out));
}

bool IsSafe(const Value& value) {
  return value.is(Kind::kString) && value.text().safe;
}

bool IsRepeatable(const Value& value) {
  return value.is(Kind::kString) || value.is_sequence();
}

// -1, 0 or 1; nothing when one is no number. Exact also where a double cannot hold the integer.
std::optional<int> CompareNumbers(const Value& left, const Value& right) {
  const auto sign = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (left.is_integral() && right.is_integral()) return sign(left.integer(), right.integer());
  if (left.is(Kind::kFloat) && right.is(Kind::kFloat)) {
    if (std::isnan(left.real()) || std::isnan(right.real())) return std::nullopt;
    return sign(left.real(), right.real());
  }
  if (left.is(Kind::kFloat)) {
    const std::optional<int> turned = CompareNumbers(right, left);
    return turned ? std::optional(-*turned) : std::nullopt;
  }
  const double real = right.real();
  if (std::isnan(real)) return std::nullopt;
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (real >= kTwoTo63) return -1;  // beyond every integer: the cast below would be undefined
  if (real < -kTwoTo63) return 1;
  const double whole = std::floor(real);
  if (const int order = sign(left.integer(), static_cast<int64_t>(whole)); order != 0) return order;
  return real > whole ? -1 : 0;
}

absl::StatusOr<bool> EqualItems(Budget& budget, const std::vector<Value>& left,
                                const std::vector<Value>& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, left[i], right[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(Budget& budget, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value* other, FindKey(budget, right, key));
    if (other == nullptr) return false;
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, value, *other));
    if (!equal) return false;
  }
  return true;
}

// left < right, or with `or_equal` left <= right, of two lists or two tuples.
absl::StatusOr<bool> LessItems(Budget& budget, const std::vector<Value>& left,
                               const std::vector<Value>& right, bool or_equal) {
  const size_t shared = std::min(left.size(), right.size());
  for (size_t i = 0; i < shared; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, left[i], right[i]));
    if (!equal) {
      return Compare(budget, or_equal ? Comparison::kLessOrEqual : Comparison::kLess, left[i],
                     right[i]);
    }
  }
  return or_equal ? left.size() <= right.size() : left.size() < right.size();
}

absl::StatusOr<bool> Order(Budget& budget, const Value& left, const Value& right, bool or_equal) {
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(1));
  if (left.is_number() && right.is_number()) {
    const std::optional<int> order = CompareNumbers(left, right);
    return order && (*order < 0 || (or_equal && *order == 0));
  }
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    const std::string& first = left.text().bytes;
    const std::string& second = right.text().bytes;
    OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(std::min(first.size(), second.size())));
    const int order = first.compare(second);  // bytes of UTF-8 sort as code points do
    return order < 0 || (or_equal && order == 0);
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    return LessItems(budget, left.sequence().items, right.sequence().items, or_equal);
  }
  if (left.is(Kind::kUndefined)) return UndefinedError(left);
  if (right.is(Kind::kUndefined)) return UndefinedError(right);
  return InvalidArgument("'", or_equal ? "<=" : "<", "' not supported between '", TypeName(left),
                         "' and '", TypeName(right), "'");
}

}  // namespace

absl::Status UndefinedError(const Value& value) {
  return InvalidArgument(value.undefined_reason());
}

Result Calculate(Budget& budget, Arithmetic op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return CalculateIntegers(op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    return CalculateReals(op, AsReal(left), AsReal(right));
  }
  if (left.is(Kind::kUndefined)) return UndefinedError(left);
  if (right.is(Kind::kUndefined)) return UndefinedError(right);
  if (IsSafe(left) || IsSafe(right)) {
    // Python's Markup would escape the other side.
    return Unimplemented("'", Symbol(op), "' on the result of the filter 'safe' is not supported");
  }
  if (op == Arithmetic::kAdd && IsRepeatable(left) && left.kind() == right.kind()) {
    return Join(budget, left, right);
  }
  if (op == Arithmetic::kMultiply && IsRepeatable(left) && right.is_integral()) {
    return Repeat(budget, left, right.integer());
  }
  if (op == Arithmetic::kMultiply && IsRepeatable(right) && left.is_integral()) {
    return Repeat(budget, right, left.integer());
  }
  if (op == Arithmetic::kModulo && left.is(Kind::kString)) {
    return Unimplemented("formatting with '%' is not supported");
  }
  return InvalidArgument("unsupported operand types for ", Symbol(op), ": '", TypeName(left),
                         "' and '", TypeName(right), "'");
}

Result Negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.is_integral()) {
    return CalculateIntegers(Arithmetic::kSubtract, 0, value.integer());
  }
  if (value.is(Kind::kUndefined)) return UndefinedError(value);
  return InvalidArgument("bad operand type for unary -: '", TypeName(value), "'");
}

Result Plus(const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (value.is_integral()) return Value::Int(value.integer());
  if (value.is(Kind::kUndefined)) return UndefinedError(value);
  return InvalidArgument("bad operand type for unary +: '", TypeName(value), "'");
}

absl::StatusOr<bool> Equal(Budget& budget, const Value& left, const Value& right) {
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(1));
  if (left.is_number() && right.is_number()) {
    return CompareNumbers(left, right) == std::optional<int>(0);
  }
  if (left.is(Kind::kView) && right.is(Kind::kView)) {
    return Unimplemented("comparing the views of two dicts is not supported");
  }
  if (left.kind() != right.kind()) return false;  // [1] is not (1,), and '1' is not 1
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString: {
      const std::string& first = left.text().bytes;
      const std::string& second = right.text().bytes;
      if (first.size() != second.size()) return false;
      OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(first.size()));
      return first == second;
    }
    case Kind::kList:
    case Kind::kTuple:
      // Python looks whether it is one object first, so that a list with a NaN in it equals itself.
      if (left.same_object(right)) return true;
      return EqualItems(budget, left.sequence().items, right.sequence().items);
    case Kind::kDict:
      if (left.same_object(right)) return true;
      return EqualDicts(budget, left.dict(), right.dict());
    case Kind::kRange: {
      const Range& first = left.range();
      const Range& second = right.range();
      // Ranges are equal when they hold the same numbers, however they were written: an empty one
      // has no start, and one of one number no step.
      if (first.size != second.size || first.size == 0) return first.size == second.size;
      return first.start == second.start && (first.size == 1 || first.step == second.step);
    }
    case Kind::kMethod: {
      const Method& first = left.method();
      const Method& second = right.method();
      return first.call == second.call && first.self.same_object(second.self);
    }
    default:
      return left.same_object(right);
  }
}

absl::StatusOr<bool> Less(Budget& budget, const Value& left, const Value& right) {
  return Order(budget, left, right, false);
}

absl::StatusOr<bool> Compare(Budget& budget, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual:
      return Equal(budget, left, right);
    case Comparison::kNotEqual: {
      OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, left, right));
      return !equal;
    }
    case Comparison::kLess:
      return Order(budget, left, right, false);
    case Comparison::kLessOrEqual:
      return Order(budget, left, right, true);
    case Comparison::kGreater:
      return Order(budget, right, left, false);
    case Comparison::kGreaterOrEqual:
      return Order(budget, right, left, true);
    case Comparison::kIn:
      return Contains(budget, right, left);
    case Comparison::kNotIn: {
      OUTRIDER_ASSIGN_OR_RETURN(const bool contained, Contains(budget, right, left));
      return !contained;
    }
  }
  return false;
}

absl::StatusOr<bool> Contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) {
      return InvalidArgument("'in <string>' requires a string on its left, not ", TypeName(item));
    }
    OUTRIDER_RETURN_IF_ERROR(budget.Search(container.text().bytes.size()));
    return FindFirst(container.text().bytes, item.text().bytes) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, container.dict(), item));
    return found != nullptr;
  }
  absl::StatusOr<Cursor> cursor = Cursor::Over(container);
  if (!cursor.ok()) {
    return InvalidArgument("argument of type '", TypeName(container), "' is not iterable");
  }
  while (true) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Value> candidate, cursor->Next(budget));
    if (!candidate) return false;
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, *candidate, item));
    if (equal) return true;
  }
}

absl::StatusOr<const Value*> FindKey(Budget& budget, const Dict& dict, const Value& key) {
  if (!IsHashable(key)) return InvalidArgument("unhashable type: '", TypeName(key), "'");
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(dict.entries.size()));
  for (const auto& [candidate, value] : dict.entries) {
    if (key.is(Kind::kString) && candidate.is(Kind::kString)) {  // nearly always
      if (key.text().bytes == candidate.text().bytes) return &value;
      continue;
    }
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, key, candidate));
    if (equal) return &value;
  }
  return nullptr;
}

absl::Status Insert(Budget& budget, Entries& entries, Value key, Value value) {
  if (!IsHashable(key)) return InvalidArgument("unhashable type: '", TypeName(key), "'");
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(entries.size()));
  for (auto& [candidate, old] : entries) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, key, candidate));
    if (equal) {
      old = std::move(value);
      return absl::OkStatus();
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
  return absl::OkStatus();
}

}  // namespace outrider::jinja
