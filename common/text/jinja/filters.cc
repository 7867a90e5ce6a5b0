#include "common/text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"
#include "common/text/jinja/strings.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

bool IsSafe(const Value& value) {
  return value.is(Kind::kString) && value.text().safe;
}

// A filter that makes another text of str(subject).
template <std::string (*kTransform)(std::string_view)>
Result Transform(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  OUTRIDER_RETURN_IF_ERROR(state.budget.Search(text.text().bytes.size()));
  return MakeText(state.budget, kTransform(text.text().bytes), IsSafe(subject));
}

// Not Python's title(): a word begins after blanks and opening brackets only.
std::string TitleWords(std::string_view text) {
  const auto between_words = [](char32_t code) {
    return IsBlank(code) || code == U'-' || code == U'(' || code == U'{' || code == U'[' ||
           code == U'<';
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    const bool separator = between_words(DecodeAt(text, at).code);
    while (end < text.size() && between_words(DecodeAt(text, end).code) == separator) {
      end += DecodeAt(text, end).length;
    }
    const std::string_view piece = text.substr(at, end - at);
    const size_t first = DecodeAt(piece, 0).length;
    out += Upper(piece.substr(0, first));
    out += Lower(piece.substr(first));
    at = end;
  }
  return out;
}

Result Length(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t length, jinja::Length(subject));
  return Value::Int(length);
}

Result Default(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"default_value", "boolean"}));
  const bool also_false = bound[1] && IsTrue(*bound[1]);
  if (!subject.is(Kind::kUndefined) && (!also_false || IsTrue(subject))) return subject;
  return bound[0] ? *bound[0] : MakeText(state.budget, "");
}

Result ToString(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return ToTextValue(state.budget, subject);
}

Result MarkSafe(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  return MakeText(state.budget, text.text().bytes, true);
}

Result Escape(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (IsSafe(subject)) return subject;
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  std::string out;
  for (const char c : text.text().bytes) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return MakeText(state.budget, std::move(out), true);
}

Result Trim(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"chars"}));
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  std::optional<std::string_view> characters;
  if (bound[0] && !bound[0]->is(Kind::kNone)) {
    OUTRIDER_ASSIGN_OR_RETURN(characters, ToText(*bound[0], "what to trim"));
  }
  const size_t work = characters ? std::max<size_t>(characters->size(), 1) : 1;
  OUTRIDER_RETURN_IF_ERROR(state.budget.ReadBytes(text.text().bytes.size() * work));
  return MakeText(state.budget, std::string(Strip(text.text().bytes, Side::kBoth, characters)),
                  IsSafe(subject));
}

Result ReplaceFilter(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"old", "new", "count"}, 2));
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  OUTRIDER_ASSIGN_OR_RETURN(const Value from, ToTextValue(state.budget, *bound[0]));
  OUTRIDER_ASSIGN_OR_RETURN(const Value to, ToTextValue(state.budget, *bound[1]));
  int64_t limit = -1;
  if (bound[2] && !bound[2]->is(Kind::kNone)) {
    OUTRIDER_ASSIGN_OR_RETURN(limit, ToInteger(*bound[2]));
  }
  return Replace(state.budget, text.text().bytes, from.text().bytes, to.text().bytes, limit);
}

Result CenterFilter(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"width"}));
  OUTRIDER_ASSIGN_OR_RETURN(const Value text, ToTextValue(state.budget, subject));
  int64_t width = 80;
  if (bound[0]) {
    OUTRIDER_ASSIGN_OR_RETURN(width, ToInteger(*bound[0]));
  }
  return Center(state.budget, text.text().bytes, width, " ");
}

Result Indent(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"width", "first", "blank"}));
  if (subject.is(Kind::kUndefined)) return UndefinedError(subject);
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, ToText(subject, "what to indent"));
  Value indentation = LiteralText("    ");
  if (bound[0] && bound[0]->is(Kind::kString)) {
    indentation = *bound[0];
  } else if (bound[0]) {
    OUTRIDER_ASSIGN_OR_RETURN(
        indentation, Calculate(state.budget, Arithmetic::kMultiply, LiteralText(" "), *bound[0]));
  }
  const std::string& indent = indentation.text().bytes;
  const bool first = bound[1] && IsTrue(*bound[1]);
  const bool blank = bound[2] && IsTrue(*bound[2]);
  const size_t most_lines = CountBlanks(text) + 1;
  OUTRIDER_RETURN_IF_ERROR(state.budget.Search(text.size() + 16 * most_lines));
  if (!indent.empty() && most_lines > Budget::kMaxTextBytes / indent.size()) {
    return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
  }
  // Another line break first, so that a text that ends with one keeps it.
  const std::string terminated = std::string(text) + "\n";
  const std::vector<std::string_view> lines = SplitLines(terminated, false);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.push_back('\n');
    if (i == 0 ? first : blank || !lines[i].empty()) out += indent;
    out += lines[i];
  }
  return MakeText(state.budget, std::move(out), IsSafe(subject));
}

// float(text), or nothing where Python raises a ValueError.
std::optional<double> ParseReal(std::string_view text) {
  text = Strip(text, Side::kBoth);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
    } else {
      digits.push_back(text[i]);
    }
  }
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const double sign = negative ? -1.0 : 1.0;
  const std::string lower = Lower(digits);
  if (lower == "inf" || lower == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string::npos ||
      digits[0] == '-' || digits[0] == '+') {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  if (error == std::errc::result_out_of_range) {
    value = digits.find("e-") != std::string::npos || digits.find("E-") != std::string::npos
                ? 0
                : std::numeric_limits<double>::infinity();
  }
  return sign * value;
}

// int(text, base); nothing where Python raises a ValueError. Beyond 64 bits is an error.
absl::StatusOr<std::optional<int64_t>> ParseInteger(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::optional<int64_t>();
  text = Strip(text, Side::kBoth);
  std::string digits = text.starts_with('-') ? "-" : "";
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  static constexpr std::pair<std::string_view, int64_t> kPrefixes[] = {
      {"0x", 16}, {"0o", 8}, {"0b", 2}};
  bool after_prefix = false;
  for (const auto& [prefix, prefix_base] : kPrefixes) {
    if ((base == 0 || base == prefix_base) && Lower(text.substr(0, 2)) == prefix) {
      text.remove_prefix(2);
      base = prefix_base;
      after_prefix = true;
      break;
    }
  }
  if (base == 0) {
    // No number but zero begins with a zero.
    if (text.starts_with('0') && text.find_first_not_of("0_") != std::string_view::npos) {
      return std::optional<int64_t>();
    }
    base = 10;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
    } else if ((i == 0 && !after_prefix) || i + 1 == text.size() || text[i + 1] == '_') {
      return std::optional<int64_t>();
    }
  }
  int64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, static_cast<int>(base));
  if (error == std::errc::invalid_argument || end != last) return std::optional<int64_t>();
  if (error != std::errc()) return InvalidArgument("an integer grows beyond 64 bits");
  return std::optional(value);
}

absl::StatusOr<int64_t> Truncate(double value) {
  if (!(std::abs(value) < 9223372036854775808.0)) {
    return InvalidArgument("cannot convert ", RealToText(value), " to an integer of 64 bits");
  }
  return static_cast<int64_t>(value);
}

Result Int(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"default", "base"}));
  if (subject.is(Kind::kUndefined)) return UndefinedError(subject);
  const Value fallback = bound[0] ? *bound[0] : Value::Int(0);
  int64_t base = 10;
  if (bound[1]) {
    OUTRIDER_ASSIGN_OR_RETURN(base, ToInteger(*bound[1]));
  }
  if (subject.is_integral()) return Value::Int(subject.integer());
  std::optional<double> real;
  if (subject.is(Kind::kFloat)) {
    real = subject.real();
    if (std::isinf(*real)) return Truncate(*real).status();
  } else if (subject.is(Kind::kString)) {
    OUTRIDER_RETURN_IF_ERROR(state.budget.ReadBytes(subject.text().bytes.size()));
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<int64_t> integer,
                              ParseInteger(subject.text().bytes, base));
    if (integer) return Value::Int(*integer);
    real = ParseReal(subject.text().bytes);
  }
  if (!real || !std::isfinite(*real)) return fallback;
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t integer, Truncate(*real));
  return Value::Int(integer);
}

Result Float(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"default"}));
  if (subject.is(Kind::kUndefined)) return UndefinedError(subject);
  if (subject.is(Kind::kFloat)) return subject;
  if (subject.is_integral()) return Value::Float(static_cast<double>(subject.integer()));
  if (subject.is(Kind::kString)) {
    OUTRIDER_RETURN_IF_ERROR(state.budget.ReadBytes(subject.text().bytes.size()));
    if (const auto real = ParseReal(subject.text().bytes)) return Value::Float(*real);
  }
  return bound[0] ? *bound[0] : Value::Float(0);
}

Result Abs(RenderState& /*state*/, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (subject.is(Kind::kFloat)) return Value::Float(std::abs(subject.real()));
  if (subject.is_integral()) {
    return subject.integer() < 0 ? Negate(subject) : Value::Int(subject.integer());
  }
  return InvalidArgument("bad operand type for abs(): '", TypeName(subject), "'");
}

// Exactly half goes to the even neighbour, decided on the exact value of the double.
double RoundHalfEven(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 323) return value;
  char digits[700];
  std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(precision), value);
  return std::strtod(digits, nullptr);
}

Result Round(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"precision", "method"}));
  int64_t precision = 0;
  if (bound[0]) {
    OUTRIDER_ASSIGN_OR_RETURN(precision, ToInteger(*bound[0]));
  }
  std::string_view method = "common";
  if (bound[1]) {
    OUTRIDER_ASSIGN_OR_RETURN(method, ToText(*bound[1], "the method of rounding"));
  }
  if (method != "common" && method != "ceil" && method != "floor") {
    return InvalidArgument("method must be common, ceil or floor");
  }
  if (!subject.is_number()) {
    return InvalidArgument("type ", TypeName(subject), " cannot be rounded");
  }
  if (precision < 0) return Unimplemented("rounding to a negative precision is not supported");
  if (method == "common") {
    if (subject.is_integral()) return Value::Int(subject.integer());
    return Value::Float(RoundHalfEven(subject.real(), precision));
  }
  if (precision > 18) return Unimplemented("rounding to ", precision, " digits is not supported");
  const Value scale = Value::Int(static_cast<int64_t>(std::llround(std::pow(10.0, precision))));
  OUTRIDER_ASSIGN_OR_RETURN(const Value scaled,
                            Calculate(state.budget, Arithmetic::kMultiply, subject, scale));
  if (scaled.is_integral()) {
    return Calculate(state.budget, Arithmetic::kDivide, scaled, scale);
  }
  if (!std::isfinite(scaled.real())) return InvalidArgument("cannot round ", scaled.real());
  const double whole = method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real());
  return Value::Float(whole / static_cast<double>(scale.integer()) + 0.0);
}

absl::Status SetSeparators(const Value& value, JsonStyle& style) {
  if (!value.is_sequence() || value.sequence().items.size() != 2) {
    return InvalidArgument("'separators' must be a tuple of two texts");
  }
  const std::vector<Value>& items = value.sequence().items;
  OUTRIDER_ASSIGN_OR_RETURN(style.item_separator, ToText(items[0], "a separator"));
  OUTRIDER_ASSIGN_OR_RETURN(style.key_separator, ToText(items[1], "a separator"));
  return absl::OkStatus();
}

absl::Status SetIndent(Budget& budget, const Value& value, JsonStyle& style) {
  constexpr size_t kMaxIndent = 1000;  // it is repeated at every level
  Value indent = value;
  if (!indent.is(Kind::kString)) {
    OUTRIDER_ASSIGN_OR_RETURN(indent,
                              Calculate(budget, Arithmetic::kMultiply, LiteralText(" "), value));
  }
  if (indent.text().bytes.size() > kMaxIndent) {
    return InvalidArgument("tojson indents by at most ", kMaxIndent, " bytes");
  }
  style.indent = indent.text().bytes;
  style.item_separator = ",";
  return absl::OkStatus();
}

Result ToJson(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound,
                            Bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bound[0] && IsTrue(*bound[0]);
  style.sort_keys = bound[3] && IsTrue(*bound[3]);
  if (bound[1] && !bound[1]->is(Kind::kNone)) {
    OUTRIDER_RETURN_IF_ERROR(SetIndent(state.budget, *bound[1], style));
  }
  if (bound[2] && !bound[2]->is(Kind::kNone)) {
    OUTRIDER_RETURN_IF_ERROR(SetSeparators(*bound[2], style));
  }
  std::string out;
  OUTRIDER_RETURN_IF_ERROR(AppendJson(state.budget, subject, style, out));
  return MakeText(state.budget, std::move(out));
}

constexpr Filter kFilters[] = {
    {"abs", Abs},
    {"capitalize", Transform<Capitalize>},
    {"center", CenterFilter},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"float", Float},
    {"indent", Indent},
    {"int", Int},
    {"length", Length},
    {"lower", Transform<Lower>},
    {"replace", ReplaceFilter},
    {"round", Round},
    {"safe", MarkSafe},
    {"string", ToString},
    {"title", Transform<TitleWords>},
    {"tojson", ToJson},
    {"trim", Trim},
    {"upper", Transform<Upper>},
};

}  // namespace

const Filter* FindFilter(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFilters), std::end(kFilters),
                   [name](const Filter& filter) { return filter.name == name; });
  return found != std::end(kFilters) ? found : FindSequenceFilter(name);
}

}  // namespace outrider::jinja
