#include "common/text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"
#include "common/text/unicode/unicode.h"
#include "nlohmann/json.hpp"

namespace outrider::jinja {

namespace {

absl::Status SortByKey(Budget& budget, Entries& entries) {
  absl::Status error;
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& left, const auto& right) {
    if (!error.ok()) return false;
    const absl::StatusOr<bool> less = Less(budget, left.first, right.first);
    if (!less.ok()) error = less.status();
    return less.ok() && *less;
  });
  return error;
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style, std::string& out)
      : budget_(budget), style_(style), out_(out) {}

  absl::Status Write(const Value& value) {
    OUTRIDER_RETURN_IF_ERROR(CheckSize(budget_, out_));
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return absl::OkStatus();
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        return absl::OkStatus();
      case Kind::kInt:
        out_ += Concat(value.integer());
        return absl::OkStatus();
      case Kind::kFloat:
        WriteReal(value.real());
        return absl::OkStatus();
      case Kind::kString:
        OUTRIDER_RETURN_IF_ERROR(budget_.ReadBytes(value.text().bytes.size()));
        WriteText(value.text().bytes);
        return absl::OkStatus();
      case Kind::kList:
      case Kind::kTuple:
        return WriteItems(value.sequence().items);
      case Kind::kDict:
        return WriteDict(value);
      default:
        return InvalidArgument("Object of type ", TypeName(value), " is not JSON serializable");
    }
  }

 private:
  void WriteReal(double value) {
    out_ += std::isnan(value)    ? "NaN"
            : !std::isinf(value) ? RealToText(value)
            : value > 0          ? "Infinity"
                                 : "-Infinity";
  }

  void WriteText(std::string_view text) {
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const Character character = DecodeAt(text, at);
      WriteCharacter(character.code);
      at += character.length;
    }
    out_.push_back('"');
  }

  void WriteCharacter(char32_t code) {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    if (code < 0x80) {
      if (const size_t at = kEscaped.find(static_cast<char>(code)); at != kEscaped.npos) {
        out_.push_back('\\');
        out_.push_back(kLetters[at]);
        return;
      }
    }
    if (code >= 0x20 && (code < 0x7F || !style_.ensure_ascii)) {
      AppendUtf8(code, out_);
    } else if (code < 0x10000) {
      WriteUnit(code);
    } else {
      WriteUnit(0xD800 + ((code - 0x10000) >> 10));
      WriteUnit(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }

  void WriteUnit(char32_t unit) {
    out_ += "\\u";
    AppendHex(unit, 4, out_);
  }

  void BreakLine() {
    if (!style_.indent) return;
    out_.push_back('\n');
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  absl::Status WriteItems(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return absl::OkStatus();
    }
    out_.push_back('[');
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      BreakLine();
      OUTRIDER_RETURN_IF_ERROR(Write(items[i]));
    }
    --depth_;
    BreakLine();
    out_.push_back(']');
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Value& value) {
    Entries entries = value.dict().entries;
    OUTRIDER_RETURN_IF_ERROR(budget_.ReadValues(entries.size()));
    if (entries.empty()) {
      out_ += "{}";
      return absl::OkStatus();
    }
    if (style_.sort_keys) OUTRIDER_RETURN_IF_ERROR(SortByKey(budget_, entries));
    out_.push_back('{');
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      BreakLine();
      OUTRIDER_RETURN_IF_ERROR(WriteKey(entries[i].first));
      out_ += style_.key_separator;
      OUTRIDER_RETURN_IF_ERROR(Write(entries[i].second));
    }
    --depth_;
    BreakLine();
    out_.push_back('}');
    return absl::OkStatus();
  }

  absl::Status WriteKey(const Value& key) {
    if (key.is(Kind::kString)) return Write(key);
    if (!key.is_number() && !key.is(Kind::kNone)) {
      return InvalidArgument("keys must be str, int, float, bool or None, not ", TypeName(key));
    }
    out_.push_back('"');
    OUTRIDER_RETURN_IF_ERROR(Write(key));
    out_.push_back('"');
    return absl::OkStatus();
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
  int depth_ = 0;
};

Result FromText(Budget& budget, const std::string& text) {
  std::string storage;
  return MakeText(budget, std::string(ValidUtf8(text, storage)));
}

Result FromJsonAt(Budget& budget, const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > Budget::kMaxValueDepth) {
    return InvalidArgument("values are nested deeper than ", Budget::kMaxValueDepth);
  }
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(1));
  switch (json.type()) {
    case Type::boolean:
      return Value::Bool(json.get<bool>());
    case Type::number_integer:
      return Value::Int(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return InvalidArgument("the integer ", number, " has more than 63 bits");
      }
      return Value::Int(static_cast<int64_t>(number));
    }
    case Type::number_float:
      return Value::Float(json.get<double>());
    case Type::string:
      return FromText(budget, json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      for (const auto& item : json) {
        OUTRIDER_ASSIGN_OR_RETURN(Value value, FromJsonAt(budget, item, depth + 1));
        items.push_back(std::move(value));
      }
      return MakeList(budget, std::move(items));
    }
    case Type::object: {
      Entries entries;
      for (const auto& [name, item] : json.items()) {
        OUTRIDER_ASSIGN_OR_RETURN(Value key, FromText(budget, name));
        OUTRIDER_ASSIGN_OR_RETURN(Value value, FromJsonAt(budget, item, depth + 1));
        entries.emplace_back(std::move(key), std::move(value));
      }
      return MakeDict(budget, std::move(entries));
    }
    case Type::null:
    case Type::discarded:
      return Value::None();
    case Type::binary:
      return InvalidArgument("binary JSON values have no meaning in a template");
  }
  return Value::None();
}

}  // namespace

absl::Status AppendJson(Budget& budget, const Value& value, const JsonStyle& style,
                        std::string& out) {
  return JsonWriter(budget, style, out).Write(value);
}

Result FromJson(Budget& budget, const nlohmann::ordered_json& json) {
  return FromJsonAt(budget, json, 1);
}

}  // namespace outrider::jinja
