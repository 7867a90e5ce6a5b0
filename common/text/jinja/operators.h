// Python's operators on values.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

enum class Arithmetic : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};
enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

// Integers have 64 bits; what Python would let grow beyond them is an error.
Result Calculate(Budget& budget, Arithmetic op, const Value& left, const Value& right);
Result Negate(const Value& value);
Result Plus(const Value& value);

absl::StatusOr<bool> Compare(Budget& budget, Comparison op, const Value& left, const Value& right);
absl::StatusOr<bool> Equal(Budget& budget, const Value& left, const Value& right);
absl::StatusOr<bool> Less(Budget& budget, const Value& left, const Value& right);
absl::StatusOr<bool> Contains(Budget& budget, const Value& container, const Value& item);

// The value under the key, or null.
absl::StatusOr<const Value*> FindKey(Budget& budget, const Dict& dict, const Value& key);
// entries[key] = value, keeping the place of a key that is there.
absl::Status Insert(Budget& budget, Entries& entries, Value key, Value value);

// object[key]; undefined when there is no such item. An undefined object is an error.
Result GetItem(Budget& budget, const Value& object, const Value& key);

// object[start:stop:step], where none stands for the default.
Result GetSlice(Budget& budget, const Value& object, const Value& start, const Value& stop,
                const Value& step);

// An undefined value was used: the error that says which.
absl::Status UndefinedError(const Value& value);

}  // namespace outrider::jinja
