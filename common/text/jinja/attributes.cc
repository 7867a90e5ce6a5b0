#include "common/text/jinja/attributes.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "common/base/status.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"

namespace outrider::jinja {

namespace {

// What a loop may be asked, short of running its filter ahead (interpreter.cc does that for
// length, last and nextitem before it asks).
std::optional<Value> LoopAttribute(const Loop& loop, std::string_view name) {
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "previtem") return loop.index0 == 0 ? Value() : loop.previous;
  if (name == "last") return Value::Bool(loop.ahead.empty());
  if (name == "nextitem") return loop.ahead.empty() ? Value() : loop.ahead.front();
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (!loop.length) return std::nullopt;
  if (name == "length") return Value::Int(*loop.length);
  if (name == "revindex") return Value::Int(*loop.length - loop.index0);
  if (name == "revindex0") return Value::Int(*loop.length - loop.index0 - 1);
  return std::nullopt;
}

Result Cycle(Budget& /*budget*/, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return InvalidArgument("needs the values to cycle through, by position");
  }
  const auto count = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(self.loop().index0 % count)];
}

Result MakeMethod(Budget& budget, const Value& self, std::string_view name, Method::Call call) {
  OUTRIDER_ASSIGN_OR_RETURN(auto method, NewObject<Method>(budget, 0, self.depth() + 1));
  method->self = self;
  method->name = name;
  method->call = call;
  return Value(Kind::kMethod, std::move(method));
}

// The attribute of the type itself; nothing when there is none of that name.
absl::StatusOr<std::optional<Value>> TypeAttribute(RenderState& state, const Value& object,
                                                   std::string_view name) {
  Budget& budget = state.budget;
  if (name.starts_with("__") && name.ends_with("__")) {
    OUTRIDER_ASSIGN_OR_RETURN(
        Value unsafe, MakeUndefined(budget, Concat("access to attribute '", name, "' of '",
                                                   TypeName(object), "' object is unsafe")));
    return std::optional(std::move(unsafe));
  }
  if (object.is(Kind::kNamespace)) {
    OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(object.name_space().attributes.size()));
    const Value* found = object.name_space().Find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (object.is(Kind::kLoop)) {
    if (name == "cycle") {
      OUTRIDER_ASSIGN_OR_RETURN(Value cycle, MakeMethod(budget, object, "cycle", Cycle));
      return std::optional(std::move(cycle));
    }
    if (name == "changed") return Unimplemented("'loop.changed' is not supported");
    return LoopAttribute(object.loop(), name);
  }
  const MethodEntry* entry = FindMethod(object, name);
  if (entry == nullptr) return std::optional<Value>();
  switch (entry->status) {
    case MethodEntry::Status::kUnsupported:
      return Unimplemented("'", TypeName(object), ".", name, "' is not supported");
    case MethodEntry::Status::kForbidden: {
      OUTRIDER_ASSIGN_OR_RETURN(
          Value unsafe,
          MakeUndefined(budget, Concat("access to attribute '", name, "' of '", TypeName(object),
                                       "' object is unsafe: templates change no values")));
      return std::optional(std::move(unsafe));
    }
    case MethodEntry::Status::kSupported:
      break;
  }
  if (object.is(Kind::kString) && object.text().safe) {
    return Unimplemented("a method of the result of the filter 'safe' is not supported");
  }
  OUTRIDER_ASSIGN_OR_RETURN(Value method, MakeMethod(budget, object, entry->name, entry->call));
  return std::optional(std::move(method));
}

Result MakeRangeFunction(RenderState& state, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", "", ""}, 1));
  std::array<int64_t, 3> numbers = {0, 0, 1};
  for (size_t i = 0; i < 3 && bound[i]; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(numbers[i], ToInteger(*bound[i]));
  }
  if (!bound[1]) return MakeRange(state.budget, 0, numbers[0], 1);
  return MakeRange(state.budget, numbers[0], numbers[1], numbers[2]);
}

// dict(mapping or pairs, **named)
absl::StatusOr<Entries> DictEntries(Budget& budget, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    return InvalidArgument("takes at most 1 argument by position, ", arguments.positional.size(),
                           " were given");
  }
  Entries entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(source.dict().entries.size()));
      entries = source.dict().entries;
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Collect(budget, source));
      for (const Value& pair : pairs) {
        OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(budget, pair));
        if (items.size() != 2) {
          return InvalidArgument("an entry of a dict has 2 values, not ", items.size());
        }
        OUTRIDER_RETURN_IF_ERROR(Insert(budget, entries, std::move(items[0]), std::move(items[1])));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, MakeText(budget, name));
    OUTRIDER_RETURN_IF_ERROR(Insert(budget, entries, std::move(key), value));
  }
  return entries;
}

Result MakeDictFunction(RenderState& state, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(Entries entries, DictEntries(state.budget, arguments));
  return MakeDict(state.budget, std::move(entries));
}

Result MakeNamespace(RenderState& state, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Entries entries, DictEntries(state.budget, arguments));
  OUTRIDER_ASSIGN_OR_RETURN(auto space, state.NewNamespace());
  for (const auto& [key, value] : entries) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view name, ToText(key, "a namespace's attribute"));
    OUTRIDER_RETURN_IF_ERROR(SetAttribute(Value(Kind::kNamespace, space), name, value));
  }
  return Value(Kind::kNamespace, std::move(space));
}

Result RaiseException(RenderState& /*state*/, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"message"}, 1));
  Budget budget;  // the message must get through, however much the template has spent
  std::string message;
  OUTRIDER_RETURN_IF_ERROR(AppendText(budget, *bound[0], message));
  return absl::InvalidArgumentError(message);
}

// datetime.now().strftime(format), in local time.
Result FormatTime(RenderState& state, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"format"}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view format, ToText(*bound[0], "the format"));
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(state.now));
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) {
    return InvalidArgument("the time of the rendering is outside the calendar");
  }
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(
      state.now - std::chrono::floor<std::chrono::seconds>(state.now));
  OUTRIDER_RETURN_IF_ERROR(state.budget.Spend(10 * format.size()));
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    // A flag of the C library's, then what to print. Python's own: %f, and no time zone.
    const size_t start = at++;
    while (at < format.size() && std::string_view("-_0^#").find(format[at]) != format.npos) ++at;
    const std::string directive(format.substr(start, at + 1 - start));
    const char letter = at < format.size() ? format[at] : '\0';
    if (directive == "%f") {
      const std::string digits = Concat(microseconds.count());
      out += std::string(6 - digits.size(), '0') + digits;
    } else if (letter == 'z' || letter == 'Z') {
      continue;
    } else if (letter == '\0' ||
               std::string_view("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%").find(letter) ==
                   std::string_view::npos) {
      return Unimplemented("'", directive, "' in a time format is not supported");
    } else {
      char buffer[128];
      out.append(buffer, strftime(buffer, sizeof(buffer), directive.c_str(), &local));
    }
  }
  return MakeText(state.budget, std::move(out));
}

Value MakeFunction(std::string_view name, Result (*call)(RenderState&, const Arguments&)) {
  auto function = std::make_shared<Function>();
  function->name = name;
  function->call = call;
  return Value(Kind::kFunction, std::move(function));
}

}  // namespace

absl::Status SetAttribute(const Value& object, std::string_view name, Value value) {
  if (!object.is(Kind::kNamespace)) {
    return InvalidArgument("cannot assign attribute '", name, "' on '", TypeName(object),
                           "', only on a namespace");
  }
  if (name.starts_with('_')) {
    return InvalidArgument("a namespace takes no attribute '", name,
                           "': rename it without the underscore in front");
  }
  return object.name_space().Set(name, std::move(value));
}

Result GetAttribute(RenderState& state, const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> attribute, TypeAttribute(state, object, name));
  if (attribute) return *std::move(attribute);
  OUTRIDER_ASSIGN_OR_RETURN(const Value key, MakeText(state.budget, std::string(name)));
  return GetItem(state.budget, object, key);
}

Result GetItemOrAttribute(RenderState& state, const Value& object, const Value& key) {
  OUTRIDER_ASSIGN_OR_RETURN(Value item, GetItem(state.budget, object, key));
  if (!item.is(Kind::kUndefined) || !key.is(Kind::kString)) return item;
  if (object.is(Kind::kDict)) {  // the item may be there, and undefined
    OUTRIDER_ASSIGN_OR_RETURN(const Value* found, FindKey(state.budget, object.dict(), key));
    if (found != nullptr) return item;
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> attribute,
                            TypeAttribute(state, object, key.text().bytes));
  return attribute ? *std::move(attribute) : item;
}

Result CallNative(RenderState& state, const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kUndefined:
      return UndefinedError(callee);
    case Kind::kFunction: {
      const Function& function = callee.function();
      Result result = function.call(state, arguments);
      if (result.ok() || function.call == RaiseException) return result;
      return Annotate(result.status(), Concat(function.name, "()"));
    }
    case Kind::kMethod: {
      const Method& method = callee.method();
      Result result = method.call(state.budget, method.self, arguments);
      if (!result.ok()) return Annotate(result.status(), Concat(method.name, "()"));
      return result;
    }
    default:
      return InvalidArgument("'", TypeName(callee), "' object is not callable");
  }
}

const Value* FindGlobal(std::string_view name) {
  static const std::array<std::pair<std::string_view, Value>, 5> kGlobals = {{
      {"range", MakeFunction("range", MakeRangeFunction)},
      {"dict", MakeFunction("dict", MakeDictFunction)},
      {"namespace", MakeFunction("namespace", MakeNamespace)},
      {"raise_exception", MakeFunction("raise_exception", RaiseException)},
      {"strftime_now", MakeFunction("strftime_now", FormatTime)},
  }};
  for (const auto& [key, value] : kGlobals) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool IsUnsupportedGlobal(std::string_view name) {
  return name == "lipsum" || name == "cycler" || name == "joiner" || name == "self" ||
         name == "caller";
}

}  // namespace outrider::jinja
