#include "common/text/jinja/print.h"

#include <charconv>
#include <cmath>

#include "common/base/status.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/strings.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

void AppendQuoted(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char32_t quote = has_single && !has_double ? U'"' : U'\'';
  AppendUtf8(quote, out);
  for (size_t at = 0; at < text.size();) {
    const Character character = DecodeAt(text, at);
    const char32_t code = character.code;
    if (code == quote || code == U'\\') {
      out.push_back('\\');
      AppendUtf8(code, out);
    } else if (code == U'\n') {
      out += "\\n";
    } else if (code == U'\r') {
      out += "\\r";
    } else if (code == U'\t') {
      out += "\\t";
    } else if (IsPrintable(code)) {
      out.append(text.substr(at, character.length));
    } else {
      out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
      AppendHex(code, code < 0x100 ? 2 : code < 0x10000 ? 4 : 8, out);
    }
    at += character.length;
  }
  AppendUtf8(quote, out);
}

absl::Status AppendItems(Budget& budget, const std::vector<Value>& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    OUTRIDER_RETURN_IF_ERROR(AppendRepr(budget, items[i], out));
  }
  return absl::OkStatus();
}

absl::Status AppendDict(Budget& budget, const Dict& dict, std::string& out) {
  out.push_back('{');
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    OUTRIDER_RETURN_IF_ERROR(AppendRepr(budget, dict.entries[i].first, out));
    out += ": ";
    OUTRIDER_RETURN_IF_ERROR(AppendRepr(budget, dict.entries[i].second, out));
  }
  out.push_back('}');
  return absl::OkStatus();
}

absl::Status AppendView(Budget& budget, const Value& value, std::string& out) {
  static constexpr std::string_view kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out += kNames[static_cast<int>(value.view().part)];
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(budget, value));
  OUTRIDER_RETURN_IF_ERROR(AppendItems(budget, items, out));
  out += "])";
  return absl::OkStatus();
}

}  // namespace

std::string RealToText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  // d.ddde+XX: the digits and where their point belongs.
  const std::string_view written(buffer, static_cast<size_t>(end - buffer));
  const size_t e = written.find('e');
  int exponent = 0;
  const char* const exponent_text = buffer + e + (written[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_text, end, exponent);
  std::string out = written[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : written.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    const int magnitude = std::abs(exponent);
    return Concat(out, exponent < 0 ? "e-" : "e+", magnitude < 10 ? "0" : "", magnitude);
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

void AppendHex(char32_t code, int digits, std::string& out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out.push_back("0123456789abcdef"[code >> shift & 0xF]);
  }
}

absl::Status CheckSize(Budget& budget, const std::string& out) {
  if (out.size() <= Budget::kMaxTextBytes) return budget.Spend(1);
  return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
}

absl::Status AppendRepr(Budget& budget, const Value& value, std::string& out) {
  OUTRIDER_RETURN_IF_ERROR(CheckSize(budget, out));
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return absl::OkStatus();
    case Kind::kNone:
      out += "None";
      return absl::OkStatus();
    case Kind::kBool:
      out += value.boolean() ? "True" : "False";
      return absl::OkStatus();
    case Kind::kInt:
      out += Concat(value.integer());
      return absl::OkStatus();
    case Kind::kFloat:
      out += RealToText(value.real());
      return absl::OkStatus();
    case Kind::kString:
      OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(value.text().bytes.size()));
      if (value.text().safe) out += "Markup(";
      AppendQuoted(value.text().bytes, out);
      if (value.text().safe) out += ")";
      return absl::OkStatus();
    case Kind::kList:
      out.push_back('[');
      OUTRIDER_RETURN_IF_ERROR(AppendItems(budget, value.sequence().items, out));
      out.push_back(']');
      return absl::OkStatus();
    case Kind::kTuple:
      out.push_back('(');
      OUTRIDER_RETURN_IF_ERROR(AppendItems(budget, value.sequence().items, out));
      out += value.sequence().items.size() == 1 ? ",)" : ")";
      return absl::OkStatus();
    case Kind::kDict:
      return AppendDict(budget, value.dict(), out);
    case Kind::kRange: {
      const Range& range = value.range();
      out += Concat("range(", range.start, ", ", range.stop);
      if (range.step != 1) out += Concat(", ", range.step);
      out.push_back(')');
      return absl::OkStatus();
    }
    case Kind::kView:
      return AppendView(budget, value, out);
    default:
      return Unimplemented("printing a ", TypeName(value), " is not supported");
  }
}

absl::Status AppendText(Budget& budget, const Value& value, std::string& out) {
  if (value.is(Kind::kUndefined)) return absl::OkStatus();
  if (!value.is(Kind::kString)) return AppendRepr(budget, value, out);
  OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(value.text().bytes.size()));
  out += value.text().bytes;
  return CheckSize(budget, out);
}

Result ToTextValue(Budget& budget, const Value& value) {
  if (value.is(Kind::kString)) return value;
  std::string text;
  OUTRIDER_RETURN_IF_ERROR(AppendText(budget, value, text));
  return MakeText(budget, std::move(text));
}

}  // namespace outrider::jinja
