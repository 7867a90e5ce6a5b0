// Filters that walk a sequence. map, select and their kin are lazy in Jinja; here they compute at
// once, and an error waits for whoever walks that far.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/text/jinja/attributes.h"
#include "common/text/jinja/filters.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"
#include "common/text/jinja/strings.h"
#include "common/text/jinja/tests.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

bool Flag(const std::optional<Value>& value) {
  return value && IsTrue(*value);
}

// `arguments` without the first few by position.
Arguments Rest(const Arguments& arguments, size_t first) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(first));
  return rest;
}

// object["a"]["b"] for the path "a.b"; a part of digits is an index, and none is the object itself.
// The fallback, if any, stands in for whatever is undefined on the way.
Result GetPath(RenderState& state, const Value& object, const Value& path,
               const Value* fallback = nullptr) {
  if (path.is(Kind::kNone)) return object;
  if (!path.is(Kind::kString)) {
    OUTRIDER_ASSIGN_OR_RETURN(Value item, GetItemOrAttribute(state, object, path));
    return fallback != nullptr && item.is(Kind::kUndefined) ? *fallback : item;
  }
  Value item = object;
  for (const std::string_view part : Split(path.text().bytes, ".", -1)) {
    Value key;
    int64_t index = 0;
    if (IsDigit(part) && IsAscii(part)) {
      if (std::from_chars(part.data(), part.data() + part.size(), index).ec != std::errc()) {
        return InvalidArgument("the index ", part, " is too large");
      }
      key = Value::Int(index);
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(key, MakeText(state.budget, std::string(part)));
    }
    OUTRIDER_ASSIGN_OR_RETURN(item, GetItemOrAttribute(state, item, key));
    if (fallback != nullptr && item.is(Kind::kUndefined)) item = *fallback;
  }
  return item;
}

// What sorting compares: a text in lower case, anything else as it is.
Result FoldCase(Budget& budget, const Value& value) {
  if (!value.is(Kind::kString)) return value;
  OUTRIDER_RETURN_IF_ERROR(budget.Search(value.text().bytes.size()));
  return MakeText(budget, Lower(value.text().bytes));
}

// Calls visit(item) for each; what it appended before an error is kept, and the error with it.
template <typename Visit>
Result Lazily(Budget& budget, const Value& subject, Visit visit) {
  if (!IsTrue(subject)) return MakeIterator(budget, {});
  std::vector<Value> out;
  const absl::Status end = [&]() -> absl::Status {
    const Budget::Level level(budget);
    OUTRIDER_RETURN_IF_ERROR(level.status());
    OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(subject));
    while (true) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Value> item, cursor.Next(budget));
      if (!item) return absl::OkStatus();
      OUTRIDER_RETURN_IF_ERROR(visit(*item, out));
    }
  }();
  return MakeIterator(budget, std::move(out), end);
}

Result List(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(state.budget, subject));
  return MakeList(state.budget, std::move(items));
}

Result First(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(subject));
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, cursor.Next(state.budget));
  if (item) return *std::move(item);
  return MakeUndefined(state.budget, "No first item, sequence was empty.");
}

Result Last(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (subject.is(Kind::kIterator)) {
    return InvalidArgument("'generator' object is not reversible; put '|list' before '|last'");
  }
  if (subject.is(Kind::kString) || subject.is_sequence()) {
    Result item = GetItem(state.budget, subject, Value::Int(-1));
    if (!item.ok() || !item->is(Kind::kUndefined)) return item;
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(state.budget, subject));
    if (!items.empty()) return std::move(items.back());
  }
  return MakeUndefined(state.budget, "No last item, sequence was empty.");
}

Result Join(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"d", "attribute"}));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(state.budget, subject));
  for (Value& item : items) {
    if (bound[1]) {
      OUTRIDER_ASSIGN_OR_RETURN(item, GetPath(state, item, *bound[1]));
    }
    OUTRIDER_ASSIGN_OR_RETURN(item, ToTextValue(state.budget, item));
  }
  Value separator = LiteralText("");
  if (bound[0]) {
    OUTRIDER_ASSIGN_OR_RETURN(separator, ToTextValue(state.budget, *bound[0]));
  }
  return JoinTexts(state.budget, separator.text().bytes, items);
}

Result Items(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (subject.is(Kind::kUndefined)) return MakeIterator(state.budget, {});
  if (!subject.is(Kind::kDict)) {
    return MakeIterator(state.budget, {},
                        InvalidArgument("can only get item pairs from a mapping"));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Value view, MakeView(state.budget, subject, View::Part::kItems));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(state.budget, view));
  return MakeIterator(state.budget, std::move(items));
}

Result Reverse(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (subject.is(Kind::kString)) {
    return GetSlice(state.budget, subject, Value::None(), Value::None(), Value::Int(-1));
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Value> items, Collect(state.budget, subject));
  std::reverse(items.begin(), items.end());
  return subject.is(Kind::kIterator) ? MakeList(state.budget, std::move(items))
                                     : MakeIterator(state.budget, std::move(items));
}

// map(attribute="a.b", default=x)
Result MapAttribute(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"attribute", "default"}, 1));
  const bool has_default = bound[1] && !bound[1]->is(Kind::kNone);
  return Lazily(state.budget, subject, [&](const Value& item, std::vector<Value>& out) {
    Result value = GetPath(state, item, *bound[0], has_default ? &*bound[1] : nullptr);
    if (!value.ok()) return value.status();
    out.push_back(*std::move(value));
    return absl::OkStatus();
  });
}

// map("filter", its arguments)
Result Map(RenderState& state, const Value& subject, const Arguments& arguments) {
  if (!IsTrue(subject)) return MakeIterator(state.budget, {});
  if (arguments.positional.empty()) return MapAttribute(state, subject, arguments);
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view name,
                            ToText(arguments.positional[0], "the name of a filter"));
  const Filter* const filter = FindFilter(name);
  if (filter == nullptr) return Unimplemented("the filter '", name, "' is not supported");
  const Arguments rest = Rest(arguments, 1);
  return Lazily(state.budget, subject, [&](const Value& item, std::vector<Value>& out) {
    Result value = filter->apply(state, item, rest);
    if (!value.ok()) return value.status();
    out.push_back(*std::move(value));
    return absl::OkStatus();
  });
}

// The four that keep an item when a test on it, or on an attribute of it, says `wanted`.
template <bool kOfAttribute, bool kWanted>
Result Choose(RenderState& state, const Value& subject, const Arguments& arguments) {
  if (!IsTrue(subject)) return MakeIterator(state.budget, {});
  constexpr size_t kTestAt = kOfAttribute ? 1 : 0;
  if (kOfAttribute && arguments.positional.empty()) {
    return InvalidArgument("misses the name of an attribute");
  }
  const Test* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > kTestAt) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view name,
                              ToText(arguments.positional[kTestAt], "the name of a test"));
    test = FindTest(name);
    if (test == nullptr) return Unimplemented("the test '", name, "' is not supported");
    rest = Rest(arguments, kTestAt + 1);
  }
  return Lazily(
      state.budget, subject, [&](const Value& item, std::vector<Value>& out) -> absl::Status {
        Value tested = item;
        if (kOfAttribute) {
          OUTRIDER_ASSIGN_OR_RETURN(tested, GetPath(state, item, arguments.positional[0]));
        }
        bool answer = IsTrue(tested);
        if (test != nullptr) {
          OUTRIDER_ASSIGN_OR_RETURN(answer, test->check(state, tested, rest));
        }
        if (answer == kWanted) out.push_back(item);
        return absl::OkStatus();
      });
}

// An item with what it is sorted by.
struct Keyed {
  Value key, item;
};

absl::StatusOr<Value> KeyOf(RenderState& state, const Value& item,
                            const std::optional<Value>& attribute, bool case_sensitive) {
  Value key = item;
  if (attribute) {
    OUTRIDER_ASSIGN_OR_RETURN(key, GetPath(state, item, *attribute));
  }
  return case_sensitive ? Result(key) : FoldCase(state.budget, key);
}

// What sort compares is a list, also of one: equal items are then never asked which is less.
// sort(attribute="a,b") looks at several.
absl::StatusOr<Value> SortKey(RenderState& state, const Value& item,
                              const std::optional<Value>& attribute, bool case_sensitive) {
  std::vector<std::optional<Value>> paths = {attribute};
  if (attribute && attribute->is(Kind::kString)) {
    paths.clear();
    for (const std::string_view path : Split(attribute->text().bytes, ",", -1)) {
      OUTRIDER_ASSIGN_OR_RETURN(paths.emplace_back(), MakeText(state.budget, std::string(path)));
    }
  }
  std::vector<Value> keys;
  for (const std::optional<Value>& path : paths) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, KeyOf(state, item, path, case_sensitive));
    keys.push_back(std::move(key));
  }
  return MakeList(state.budget, std::move(keys));
}

absl::Status SortKeyed(Budget& budget, std::vector<Keyed>& items, bool descending) {
  absl::Status error;
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& left, const Keyed& right) {
    if (!error.ok()) return false;
    const absl::StatusOr<bool> less =
        descending ? Less(budget, right.key, left.key) : Less(budget, left.key, right.key);
    if (!less.ok()) error = less.status();
    return less.ok() && *less;
  });
  return error;
}

Result ListOfItems(Budget& budget, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return MakeList(budget, std::move(items));
}

Result Sort(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound,
                            Bind(arguments, {"reverse", "case_sensitive", "attribute"}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(state.budget, subject));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, SortKey(state, item, bound[2], Flag(bound[1])));
    keyed.push_back({std::move(key), item});
  }
  OUTRIDER_RETURN_IF_ERROR(SortKeyed(state.budget, keyed, Flag(bound[0])));
  return ListOfItems(state.budget, std::move(keyed));
}

Result DictSort(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound,
                            Bind(arguments, {"case_sensitive", "by", "reverse"}));
  std::string_view by = "key";
  if (bound[1]) {
    OUTRIDER_ASSIGN_OR_RETURN(by, ToText(*bound[1], "what to sort by"));
  }
  if (by != "key" && by != "value") return InvalidArgument("can only sort by 'key' or 'value'");
  if (subject.is(Kind::kUndefined)) return UndefinedError(subject);
  if (!subject.is(Kind::kDict)) {
    return InvalidArgument("'", ObjectName(subject), "' has no attribute 'items'");
  }
  OUTRIDER_RETURN_IF_ERROR(state.budget.ReadValues(subject.dict().entries.size()));
  std::vector<Keyed> keyed;
  for (const auto& [name, value] : subject.dict().entries) {
    OUTRIDER_ASSIGN_OR_RETURN(
        Value key, KeyOf(state, by == "key" ? name : value, std::nullopt, Flag(bound[0])));
    OUTRIDER_ASSIGN_OR_RETURN(Value pair, MakeTuple(state.budget, {name, value}));
    keyed.push_back({std::move(key), std::move(pair)});
  }
  OUTRIDER_RETURN_IF_ERROR(SortKeyed(state.budget, keyed, Flag(bound[2])));
  return ListOfItems(state.budget, std::move(keyed));
}

Result Unique(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"case_sensitive", "attribute"}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(state.budget, subject));
  std::vector<Value> seen, out;
  for (const Value& item : items) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, KeyOf(state, item, bound[1], Flag(bound[0])));
    if (!IsHashable(key)) return InvalidArgument("unhashable type: '", TypeName(key), "'");
    bool known = false;
    for (size_t i = 0; i < seen.size() && !known; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(known, Equal(state.budget, seen[i], key));
    }
    if (known) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return MakeIterator(state.budget, std::move(out));
}

template <bool kLargest>
Result Extreme(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"case_sensitive", "attribute"}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(state.budget, subject));
  if (items.empty()) {
    return MakeUndefined(state.budget, "No aggregated item, sequence was empty.");
  }
  std::optional<Keyed> best;
  for (const Value& item : items) {
    OUTRIDER_ASSIGN_OR_RETURN(Value key, KeyOf(state, item, bound[1], Flag(bound[0])));
    bool better = !best;
    if (best) {
      OUTRIDER_ASSIGN_OR_RETURN(better, kLargest ? Less(state.budget, best->key, key)
                                                 : Less(state.budget, key, best->key));
    }
    if (better) best = Keyed{std::move(key), item};
  }
  return best->item;
}

Result Sum(RenderState& state, const Value& subject, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"attribute", "start"}));
  const bool of_attribute = bound[0] && !bound[0]->is(Kind::kNone);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(state.budget, subject));
  Value sum = bound[1] ? *bound[1] : Value::Int(0);
  if (sum.is(Kind::kString)) return InvalidArgument("cannot sum texts; use '|join'");
  for (const Value& item : items) {
    Value term = item;
    if (of_attribute) {
      OUTRIDER_ASSIGN_OR_RETURN(term, GetPath(state, item, *bound[0]));
    }
    OUTRIDER_ASSIGN_OR_RETURN(sum, Calculate(state.budget, Arithmetic::kAdd, sum, term));
  }
  return sum;
}

constexpr Filter kSequenceFilters[] = {
    {"dictsort", DictSort},
    {"first", First},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"list", List},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Choose<false, false>},
    {"rejectattr", Choose<true, false>},
    {"reverse", Reverse},
    {"select", Choose<false, true>},
    {"selectattr", Choose<true, true>},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

const Filter* FindSequenceFilter(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kSequenceFilters), std::end(kSequenceFilters),
                   [name](const Filter& filter) { return filter.name == name; });
  return found != std::end(kSequenceFilters) ? found : nullptr;
}

}  // namespace outrider::jinja
