#include "common/text/jinja/value.h"

#include <algorithm>

#include "common/text/jinja/objects.h"
#include "common/text/jinja/strings.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

int DepthOver(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

Result MakeSequence(Budget& budget, Kind kind, std::vector<Value> items) {
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(items.size()));
  OUTRIDER_ASSIGN_OR_RETURN(
      auto object, NewObject<Sequence>(budget, items.capacity() * sizeof(Value), DepthOver(items)));
  object->hashable = kind == Kind::kTuple && std::all_of(items.begin(), items.end(), IsHashable);
  object->items = std::move(items);
  return Value(kind, std::move(object));
}

}  // namespace

Value Value::Bool(bool value) {
  Value made(Kind::kBool);
  made.integer_ = value ? 1 : 0;
  return made;
}

Value Value::Int(int64_t value) {
  Value made(Kind::kInt);
  made.integer_ = value;
  return made;
}

Value Value::Float(double value) {
  Value made(Kind::kFloat);
  made.real_ = value;
  return made;
}

const Text& Value::text() const {
  return static_cast<const Text&>(*object_);
}
const Sequence& Value::sequence() const {
  return static_cast<const Sequence&>(*object_);
}
const Dict& Value::dict() const {
  return static_cast<const Dict&>(*object_);
}
const Range& Value::range() const {
  return static_cast<const Range&>(*object_);
}
const View& Value::view() const {
  return static_cast<const View&>(*object_);
}
Iterator& Value::iterator() const {
  return static_cast<Iterator&>(*object_);
}
Namespace& Value::name_space() const {
  return static_cast<Namespace&>(*object_);
}
const Macro& Value::macro() const {
  return static_cast<const Macro&>(*object_);
}
const Function& Value::function() const {
  return static_cast<const Function&>(*object_);
}
const Method& Value::method() const {
  return static_cast<const Method&>(*object_);
}
Loop& Value::loop() const {
  return static_cast<Loop&>(*object_);
}

std::string Value::undefined_reason() const {
  return object_ == nullptr ? "the value is undefined"
                            : static_cast<const Undefined&>(*object_).reason;
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::Status Namespace::Set(std::string_view name, Value value) {
  OUTRIDER_RETURN_IF_ERROR(budget->ReadValues(attributes.size()));
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return absl::OkStatus();
    }
  }
  const size_t bytes = 2 * sizeof(attributes[0]) + name.size();  // 2: what a vector may keep spare
  OUTRIDER_RETURN_IF_ERROR(budget->Reserve(bytes));
  charged_bytes += bytes;
  attributes.emplace_back(name, std::move(value));
  return absl::OkStatus();
}

Result MakeText(Budget& budget, std::string bytes, bool safe) {
  if (bytes.size() > Budget::kMaxTextBytes) {
    return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
  }
  OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(bytes.size()));
  OUTRIDER_ASSIGN_OR_RETURN(auto object, NewObject<Text>(budget, bytes.capacity()));
  object->length = CountCodePoints(bytes);
  object->bytes = std::move(bytes);
  object->safe = safe;
  return Value(Kind::kString, std::move(object));
}

Value LiteralText(std::string bytes) {
  auto object = std::make_shared<Text>();
  object->length = CountCodePoints(bytes);
  object->bytes = std::move(bytes);
  return Value(Kind::kString, std::move(object));
}

Result MakeList(Budget& budget, std::vector<Value> items) {
  return MakeSequence(budget, Kind::kList, std::move(items));
}

Result MakeTuple(Budget& budget, std::vector<Value> items) {
  return MakeSequence(budget, Kind::kTuple, std::move(items));
}

Result MakeDict(Budget& budget, Entries entries) {
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(2 * entries.size()));
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, key.depth(), value.depth()});
  OUTRIDER_ASSIGN_OR_RETURN(
      auto object,
      NewObject<Dict>(budget, entries.capacity() * sizeof(Entries::value_type), depth + 1));
  object->entries = std::move(entries);
  return Value(Kind::kDict, std::move(object));
}

Result MakeView(Budget& budget, Value dict, View::Part part) {
  OUTRIDER_ASSIGN_OR_RETURN(auto object, NewObject<View>(budget, 0, dict.depth() + 1));
  object->dict = std::move(dict);
  object->part = part;
  return Value(Kind::kView, std::move(object));
}

Result MakeIterator(Budget& budget, std::vector<Value> items, absl::Status end) {
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(items.size()));
  OUTRIDER_ASSIGN_OR_RETURN(
      auto object, NewObject<Iterator>(budget, items.capacity() * sizeof(Value), DepthOver(items)));
  object->items = std::move(items);
  object->end = std::move(end);
  return Value(Kind::kIterator, std::move(object));
}

Result MakeRange(Budget& budget, int64_t start, int64_t stop, int64_t step) {
  constexpr uint64_t kMaxRange = 100'000;  // the sandbox's
  if (step == 0) return InvalidArgument("range() needs a step that is not zero");
  uint64_t size = 0;
  // Unsigned, so that not even the widest range overflows.
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  if (step > 0 && start < stop) {
    size = (distance(start, stop) - 1) / static_cast<uint64_t>(step) + 1;
  } else if (step < 0 && start > stop) {
    size = (distance(stop, start) - 1) / (0 - static_cast<uint64_t>(step)) + 1;
  }
  if (size > kMaxRange) {
    return InvalidArgument("range() of ", size, " items, the bound is ", kMaxRange);
  }
  OUTRIDER_ASSIGN_OR_RETURN(auto object, NewObject<Range>(budget, 0));
  object->start = start;
  object->stop = stop;
  object->step = step;
  object->size = static_cast<int64_t>(size);
  return Value(Kind::kRange, std::move(object));
}

Result MakeUndefined(Budget& budget, std::string reason) {
  OUTRIDER_ASSIGN_OR_RETURN(auto object, NewObject<Undefined>(budget, reason.capacity()));
  object->reason = std::move(reason);
  return Value(Kind::kUndefined, std::move(object));
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return "dict view";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "method";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "";
}

std::string ObjectName(const Value& value) {
  return value.is(Kind::kNone) ? "None" : Concat(TypeName(value), " object");
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.text().bytes.empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.sequence().items.empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kRange:
      return value.range().size > 0;
    case Kind::kView:
      return IsTrue(value.view().dict);
    default:
      return true;
  }
}

absl::StatusOr<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.text().length);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kRange:
      return value.range().size;
    case Kind::kView:
      return Length(value.view().dict);
    default:
      return InvalidArgument("object of type '", TypeName(value), "' has no len()");
  }
}

bool IsHashable(const Value& value) {
  if (value.is_sequence()) return value.sequence().hashable;
  return !value.is(Kind::kDict) && !value.is(Kind::kView);
}

absl::StatusOr<int64_t> ToInteger(const Value& value) {
  if (value.is_integral()) return value.integer();
  return InvalidArgument("'", TypeName(value), "' object cannot be interpreted as an integer");
}

absl::StatusOr<std::string_view> ToText(const Value& value, std::string_view what) {
  if (value.is(Kind::kString)) return std::string_view(value.text().bytes);
  return InvalidArgument(what, " must be a str, not ", TypeName(value));
}

absl::StatusOr<Cursor> Cursor::Over(Value value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
      return Cursor(std::move(value));
    default:
      return InvalidArgument("'", TypeName(value), "' object is not iterable");
  }
}

absl::StatusOr<std::optional<Value>> Cursor::Next(Budget& budget) {
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(1));
  const auto from = [](const std::vector<Value>& items, size_t& at) -> std::optional<Value> {
    if (at == items.size()) return std::nullopt;
    return items[at++];
  };
  switch (value_.kind()) {
    case Kind::kString:
      return NextCharacter(budget);
    case Kind::kList:
    case Kind::kTuple:
      return from(value_.sequence().items, position_);
    case Kind::kIterator: {
      Iterator& iterator = value_.iterator();
      if (iterator.next == iterator.items.size() && !iterator.end.ok()) return iterator.end;
      return from(iterator.items, iterator.next);
    }
    case Kind::kRange:
      if (static_cast<int64_t>(position_) == value_.range().size) return std::nullopt;
      return Value::Int(value_.range().at(static_cast<int64_t>(position_++)));
    case Kind::kDict:
      if (position_ == value_.dict().entries.size()) return std::nullopt;
      return value_.dict().entries[position_++].first;
    case Kind::kView: {
      const View& view = value_.view();
      const Entries& entries = view.dict.dict().entries;
      if (position_ == entries.size()) return std::nullopt;
      const auto& [key, value] = entries[position_++];
      if (view.part == View::Part::kKeys) return key;
      if (view.part == View::Part::kValues) return value;
      OUTRIDER_ASSIGN_OR_RETURN(Value pair, MakeTuple(budget, {key, value}));
      return pair;
    }
    default:
      return std::nullopt;  // undefined: nothing to walk
  }
}

absl::StatusOr<std::optional<Value>> Cursor::NextCharacter(Budget& budget) {
  const std::string& bytes = value_.text().bytes;
  if (position_ == bytes.size()) return std::nullopt;
  const size_t length = DecodeAt(bytes, position_).length;
  OUTRIDER_ASSIGN_OR_RETURN(Value character, MakeText(budget, bytes.substr(position_, length)));
  position_ += length;
  return character;
}

std::optional<int64_t> Cursor::length() const {
  const absl::StatusOr<int64_t> length = Length(value_);
  return length.ok() ? std::optional<int64_t>(*length) : std::nullopt;
}

absl::StatusOr<std::vector<Value>> Collect(Budget& budget, const Value& value) {
  OUTRIDER_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(value));
  std::vector<Value> items;
  while (true) {
    OUTRIDER_ASSIGN_OR_RETURN(std::optional<Value> item, cursor.Next(budget));
    if (!item) return items;
    items.push_back(*std::move(item));
  }
}

}  // namespace outrider::jinja
