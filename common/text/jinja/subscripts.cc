// object[key] and object[start:stop:step].
#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/print.h"
#include "common/text/jinja/strings.h"

namespace outrider::jinja {

namespace {

// The item at a Python index, which counts from the end when negative.
std::optional<size_t> Position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Result GetCharacter(Budget& budget, const Text& text, size_t index) {
  if (text.ascii()) return MakeText(budget, text.bytes.substr(index, 1));
  OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(text.bytes.size()));
  const size_t start = ByteOffset(text.bytes, index);
  const std::string_view rest = std::string_view(text.bytes).substr(start);
  return MakeText(budget, std::string(rest.substr(0, ByteOffset(rest, 1))));
}

// What Python's slice.indices computes: which positions a slice visits.
struct SlicePositions {
  int64_t start, step;
  size_t count;
};

absl::StatusOr<int64_t> SliceBound(const Value& bound, int64_t fallback, int64_t size, bool down) {
  if (bound.is(Kind::kNone)) return fallback;
  if (!bound.is_integral()) {
    return InvalidArgument("slice indices must be integers, not ", TypeName(bound));
  }
  int64_t index = bound.integer();
  if (index < 0) {
    index += size;
    return std::max(index, int64_t{down ? -1 : 0});
  }
  return std::min(index, down ? size - 1 : size);
}

absl::StatusOr<SlicePositions> ResolveSlice(size_t size_in, const Value& start, const Value& stop,
                                            const Value& step) {
  const auto size = static_cast<int64_t>(size_in);
  int64_t stride = 1;
  if (!step.is(Kind::kNone)) {
    OUTRIDER_ASSIGN_OR_RETURN(stride, ToInteger(step));
  }
  if (stride == 0) return InvalidArgument("slice step cannot be zero");
  stride = std::max(stride, -std::numeric_limits<int64_t>::max());
  const bool down = stride < 0;
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t first,
                            SliceBound(start, down ? size - 1 : 0, size, down));
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t end, SliceBound(stop, down ? -1 : size, size, down));
  const int64_t span = down ? first - end : end - first;
  const int64_t count = span <= 0 ? 0 : (span - 1) / (down ? -stride : stride) + 1;
  return SlicePositions{first, stride, static_cast<size_t>(count)};
}

Result SliceText(Budget& budget, const Text& text, const SlicePositions& slice) {
  OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(text.bytes.size()));
  if (slice.count == 0) return MakeText(budget, "");
  if (slice.step == 1) {
    const size_t begin = ByteOffset(text.bytes, static_cast<size_t>(slice.start));
    const std::string_view rest = std::string_view(text.bytes).substr(begin);
    return MakeText(budget, std::string(rest.substr(0, ByteOffset(rest, slice.count))));
  }
  std::vector<size_t> offsets;  // where each code point starts
  offsets.reserve(text.length + 1);
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    if ((static_cast<unsigned char>(text.bytes[at]) & 0xC0) != 0x80) offsets.push_back(at);
  }
  offsets.push_back(text.bytes.size());
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(offsets.size()));
  std::string out;
  int64_t at = slice.start;
  for (size_t i = 0; i < slice.count; ++i, at += slice.step) {
    const size_t offset = offsets[static_cast<size_t>(at)];
    out.append(text.bytes, offset, offsets[static_cast<size_t>(at) + 1] - offset);
  }
  return MakeText(budget, std::move(out));
}

}  // namespace

Result GetItem(Budget& budget, const Value& object, const Value& key) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  if (object.is(Kind::kDict) && IsHashable(key)) {
    OUTRIDER_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, object.dict(), key));
    if (found != nullptr) return *found;
  } else if (key.is_integral()) {
    std::optional<size_t> position;
    switch (object.kind()) {
      case Kind::kString:
        position = Position(key.integer(), object.text().length);
        if (position) return GetCharacter(budget, object.text(), *position);
        break;
      case Kind::kList:
      case Kind::kTuple:
        position = Position(key.integer(), object.sequence().items.size());
        if (position) return object.sequence().items[*position];
        break;
      case Kind::kRange:
        position = Position(key.integer(), static_cast<size_t>(object.range().size));
        if (position) return Value::Int(object.range().at(static_cast<int64_t>(*position)));
        break;
      default:
        break;
    }
  }
  std::string what;
  if (key.is(Kind::kString)) {
    what = Concat("'", ObjectName(object), "' has no attribute '", key.text().bytes, "'");
  } else {
    what = Concat(ObjectName(object), " has no element ");
    OUTRIDER_RETURN_IF_ERROR(AppendRepr(budget, key, what));
  }
  return MakeUndefined(budget, std::move(what));
}

Result GetSlice(Budget& budget, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  if (!object.is(Kind::kString) && !object.is_sequence() && !object.is(Kind::kRange)) {
    return InvalidArgument("'", TypeName(object), "' object cannot be sliced");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t size, Length(object));
  OUTRIDER_ASSIGN_OR_RETURN(const SlicePositions slice,
                            ResolveSlice(static_cast<size_t>(size), start, stop, step));
  if (object.is(Kind::kString)) return SliceText(budget, object.text(), slice);
  if (object.is(Kind::kRange)) return Unimplemented("a slice of range() is not supported");
  const std::vector<Value>& items = object.sequence().items;
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(slice.count));
  std::vector<Value> out;
  out.reserve(slice.count);
  int64_t at = slice.start;
  for (size_t i = 0; i < slice.count; ++i, at += slice.step) {
    out.push_back(items[static_cast<size_t>(at)]);
  }
  return object.is(Kind::kList) ? MakeList(budget, std::move(out))
                                : MakeTuple(budget, std::move(out));
}

}  // namespace outrider::jinja
