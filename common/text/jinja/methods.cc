#include "common/text/jinja/methods.h"

#include <algorithm>
#include <span>

#include "common/base/status.h"
#include "common/text/jinja/operators.h"

namespace outrider::jinja {

namespace {

constexpr auto kForbidden = MethodEntry::Status::kForbidden;

Result Get(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", ""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, self.dict(), *bound[0]));
  if (found != nullptr) return *found;
  return bound[1] ? *bound[1] : Value::None();
}

template <View::Part kPart>
Result ViewMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return MakeView(budget, self, kPart);
}

// Nothing can change a dict or a list, so a copy may be the thing itself.
Result Copy(Budget& /*budget*/, const Value& self, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return self;
}

Result Count(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, item, *bound[0]));
    count += equal ? 1 : 0;
  }
  return Value::Int(count);
}

Result Index(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  const std::vector<Value>& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool equal, Equal(budget, items[i], *bound[0]));
    if (equal) return Value::Int(static_cast<int64_t>(i));
  }
  return InvalidArgument("the value looked for is not in the ", TypeName(self));
}

constexpr MethodEntry kDictMethods[] = {
    {"clear", kForbidden},
    {"copy", {}, Copy},
    {"fromkeys", kUnsupported},
    {"get", {}, Get},
    {"items", {}, ViewMethod<View::Part::kItems>},
    {"keys", {}, ViewMethod<View::Part::kKeys>},
    {"pop", kForbidden},
    {"popitem", kForbidden},
    {"setdefault", kForbidden},
    {"update", kForbidden},
    {"values", {}, ViewMethod<View::Part::kValues>},
};

constexpr MethodEntry kListMethods[] = {
    {"append", kForbidden}, {"clear", kForbidden},   {"copy", {}, Copy},     {"count", {}, Count},
    {"extend", kForbidden}, {"index", {}, Index},    {"insert", kForbidden}, {"pop", kForbidden},
    {"remove", kForbidden}, {"reverse", kForbidden}, {"sort", kForbidden},
};

constexpr MethodEntry kTupleMethods[] = {{"count", {}, Count}, {"index", {}, Index}};

constexpr MethodEntry kNumberMethods[] = {
    {"as_integer_ratio", kUnsupported}, {"bit_count", kUnsupported},   {"bit_length", kUnsupported},
    {"conjugate", kUnsupported},        {"denominator", kUnsupported}, {"from_bytes", kUnsupported},
    {"fromhex", kUnsupported},          {"hex", kUnsupported},         {"imag", kUnsupported},
    {"is_integer", kUnsupported},       {"numerator", kUnsupported},   {"real", kUnsupported},
    {"to_bytes", kUnsupported},
};

constexpr MethodEntry kRangeMethods[] = {{"count", kUnsupported},
                                         {"index", kUnsupported},
                                         {"start", kUnsupported},
                                         {"step", kUnsupported},
                                         {"stop", kUnsupported}};

constexpr MethodEntry kViewMethods[] = {{"isdisjoint", kUnsupported}, {"mapping", kUnsupported}};

constexpr MethodEntry kMacroMethods[] = {
    {"arguments", kUnsupported},       {"caller", kUnsupported},
    {"catch_kwargs", kUnsupported},    {"catch_varargs", kUnsupported},
    {"explicit_caller", kUnsupported}, {"name", kUnsupported}};

std::span<const MethodEntry> MethodsOf(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return StringMethods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
      return kTupleMethods;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return kNumberMethods;
    case Kind::kRange:
      return kRangeMethods;
    case Kind::kView:
      return kViewMethods;
    case Kind::kMacro:
      return kMacroMethods;
    default:
      return {};
  }
}

}  // namespace

const MethodEntry* FindMethod(const Value& object, std::string_view name) {
  const std::span<const MethodEntry> methods = MethodsOf(object.kind());
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [name](const MethodEntry& entry) { return entry.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace outrider::jinja
