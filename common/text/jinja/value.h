// The values a template computes with: Python's, because published templates rely on its rules.
//
//   OUTRIDER_ASSIGN_OR_RETURN(Value text, MakeText(budget, "Hello"));
//   if (text.kind() == Kind::kString && text.text().bytes == "Hello") ...
//
// A Value is a small handle; what it points to is shared and never changes, except a Namespace (the
// sandbox of transformers forbids every other mutation) and an Iterator, which is consumed. So
// cycles can only lead through a namespace or a macro's scope, and the RenderState that made those
// breaks them in the end.
//
// Texts are valid UTF-8, indexed by code point as Python does. Every object charges its bytes to
// the Budget of the rendering while it lives; literals of the template itself charge nobody.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/jinja/budget.h"

namespace outrider::jinja {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // dict.keys(), dict.values(), dict.items()
  kIterator,  // what map, select, items ... return: can be walked once, has no length
  kNamespace,
  kMacro,
  kFunction,
  kMethod,  // "abc".upper, not called yet
  kLoop,
};

struct Text;
struct Sequence;
struct Dict;
struct Range;
struct View;
struct Iterator;
struct Namespace;
struct Macro;
struct Function;
struct Method;
struct Loop;
struct Undefined;

// What a Value can point to. Gives its bytes back to the budget they were taken from.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (budget != nullptr) budget->Release(charged_bytes);
  }

  Budget* budget = nullptr;
  size_t charged_bytes = 0;
  int depth = 1;  // 1 + that of the deepest value inside
};

class Value {
 public:
  Value() = default;  // undefined, of no particular name
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // Each for its kind alone; integer() also for a bool, as in Python.
  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double real() const { return real_; }
  const Text& text() const;
  const Sequence& sequence() const;
  const Dict& dict() const;
  const Range& range() const;
  const View& view() const;
  Iterator& iterator() const;
  Namespace& name_space() const;
  const Macro& macro() const;
  const Function& function() const;
  const Method& method() const;
  Loop& loop() const;

  // Why an undefined value is undefined: "'dict object' has no attribute 'name'".
  std::string undefined_reason() const;
  bool same_object(const Value& other) const { return object_ == other.object_; }
  int depth() const { return object_ == nullptr ? 0 : object_->depth; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

using Result = absl::StatusOr<Value>;

struct Undefined : Object {
  std::string reason;
};

struct Text : Object {
  std::string bytes;
  size_t length = 0;  // code points
  bool safe = false;  // went through `safe` or `escape`: Python's Markup
  bool ascii() const { return length == bytes.size(); }
};

struct Sequence : Object {  // a list or a tuple
  std::vector<Value> items;
  bool hashable = false;  // a tuple of what is hashable itself
};

using Entries = std::vector<std::pair<Value, Value>>;

struct Dict : Object {
  Entries entries;  // in order of insertion
};

struct Range : Object {
  int64_t start, stop, step;
  int64_t size;
  int64_t at(int64_t index) const { return start + index * step; }
};

struct View : Object {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  Value dict;
  Part part;
};

struct Iterator : Object {
  std::vector<Value> items;  // computed ahead, since nothing they depend on can change
  size_t next = 0;
  absl::Status end;  // the error that stopped the computation, for whoever gets that far
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* Find(std::string_view name) const;
  absl::Status Set(std::string_view name, Value value);
};

// Makers. They fail when the budget does not allow the value, or it would be nested too deep.
Result MakeText(Budget& budget, std::string bytes, bool safe = false);
Result MakeList(Budget& budget, std::vector<Value> items);
Result MakeTuple(Budget& budget, std::vector<Value> items);
Result MakeDict(Budget& budget, Entries entries);
Result MakeView(Budget& budget, Value dict, View::Part part);
Result MakeIterator(Budget& budget, std::vector<Value> items, absl::Status end = absl::OkStatus());
Result MakeRange(Budget& budget, int64_t start, int64_t stop, int64_t step);
Result MakeUndefined(Budget& budget, std::string reason);
Value LiteralText(std::string bytes);

// Reserves the bytes of one object, with what it holds beside itself, and hands it over filled with
// that debt.
template <typename T>
absl::StatusOr<std::shared_ptr<T>> NewObject(Budget& budget, size_t held_bytes, int depth = 1) {
  if (depth > Budget::kMaxValueDepth) {
    return InvalidArgument("values are nested deeper than ", Budget::kMaxValueDepth);
  }
  const size_t bytes = sizeof(T) + 16 + held_bytes;  // 16: the counts of the shared pointer
  OUTRIDER_RETURN_IF_ERROR(budget.Reserve(bytes));
  auto object = std::make_shared<T>();
  object->budget = &budget;
  object->charged_bytes = bytes;
  object->depth = depth;
  return object;
}

// Python's name of the type ("str"), and what Jinja calls the value in errors ("str object").
std::string_view TypeName(const Value& value);
std::string ObjectName(const Value& value);

bool IsTrue(const Value& value);

// len(value); an error for what has none.
absl::StatusOr<int64_t> Length(const Value& value);

// Whether a dict may have it as a key.
bool IsHashable(const Value& value);

// The value of an integer parameter; an error naming the type for anything else.
absl::StatusOr<int64_t> ToInteger(const Value& value);
absl::StatusOr<std::string_view> ToText(const Value& value, std::string_view what);

// Walks whatever Python can walk: for x in value.
class Cursor {
 public:
  static absl::StatusOr<Cursor> Over(Value value);

  // The next item, or nothing at the end.
  absl::StatusOr<std::optional<Value>> Next(Budget& budget);
  // How many items there are in all; nothing for an iterator, which cannot tell.
  std::optional<int64_t> length() const;
  int depth() const { return value_.depth(); }

 private:
  explicit Cursor(Value value) : value_(std::move(value)) {}
  absl::StatusOr<std::optional<Value>> NextCharacter(Budget& budget);

  Value value_;
  size_t position_ = 0;  // an index; of a text, a byte
};

// All of them: list(value).
absl::StatusOr<std::vector<Value>> Collect(Budget& budget, const Value& value);

}  // namespace outrider::jinja
