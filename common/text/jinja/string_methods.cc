#include <algorithm>
#include <array>
#include <limits>

#include "common/base/status.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/strings.h"

namespace outrider::jinja {

namespace {

using Entry = MethodEntry;

std::string_view Self(const Value& self) {
  return self.text().bytes;
}

// Methods without arguments: from text to text, or to an answer.
template <std::string (*kTransform)(std::string_view)>
Result Transform(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_RETURN_IF_ERROR(budget.Search(Self(self).size()));
  return MakeText(budget, kTransform(Self(self)));
}

template <bool (*kPredicate)(std::string_view)>
Result Ask(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_RETURN_IF_ERROR(Bind(arguments, {}).status());
  OUTRIDER_RETURN_IF_ERROR(budget.Search(Self(self).size()));
  return Value::Bool(kPredicate(Self(self)));
}

absl::StatusOr<std::optional<std::string_view>> OptionalText(const std::optional<Value>& value,
                                                             std::string_view what) {
  if (!value || value->is(Kind::kNone)) return std::optional<std::string_view>();
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view text, ToText(*value, what));
  return std::optional(text);
}

absl::StatusOr<int64_t> OptionalInteger(const std::optional<Value>& value, int64_t fallback) {
  if (!value) return fallback;
  return ToInteger(*value);
}

template <Side kSide>
Result StripMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}));
  OUTRIDER_ASSIGN_OR_RETURN(const auto characters, OptionalText(bound[0], "strip argument"));
  const size_t work = characters ? std::max<size_t>(characters->size(), 1) : 1;
  OUTRIDER_RETURN_IF_ERROR(budget.ReadBytes(Self(self).size() * work));
  return MakeText(budget, std::string(Strip(Self(self), kSide, characters)));
}

// A list of the pieces; refused before it is built when it could not be kept.
Result PiecesToList(Budget& budget, const std::vector<std::string_view>& pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    OUTRIDER_ASSIGN_OR_RETURN(Value item, MakeText(budget, std::string(piece)));
    items.push_back(std::move(item));
  }
  return MakeList(budget, std::move(items));
}

absl::Status CheckPieces(Budget& budget, size_t cuts) {
  const size_t bytes = (cuts + 1) * sizeof(Text);
  OUTRIDER_RETURN_IF_ERROR(budget.Reserve(bytes));
  budget.Release(bytes);
  return absl::OkStatus();
}

template <auto kSplit>
Result SplitMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sep", "maxsplit"}));
  OUTRIDER_ASSIGN_OR_RETURN(const auto separator, OptionalText(bound[0], "separator"));
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t limit, OptionalInteger(bound[1], -1));
  if (separator && separator->empty()) return InvalidArgument("empty separator");
  const std::string_view text = Self(self);
  OUTRIDER_RETURN_IF_ERROR(budget.Search(2 * text.size()));
  OUTRIDER_RETURN_IF_ERROR(
      CheckPieces(budget, separator ? CountOccurrences(text, *separator) : CountBlanks(text)));
  return PiecesToList(budget, kSplit(text, separator, limit));
}

Result SplitLinesMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"keepends"}));
  OUTRIDER_RETURN_IF_ERROR(budget.Search(2 * Self(self).size()));
  OUTRIDER_RETURN_IF_ERROR(CheckPieces(budget, CountBlanks(Self(self))));
  return PiecesToList(budget, SplitLines(Self(self), bound[0] && IsTrue(*bound[0])));
}

// The part of the text that optional start and end arguments leave, and where it begins.
struct Part {
  std::string_view text;
  size_t start;  // in code points
};

absl::StatusOr<std::optional<Part>> Restrict(Budget& budget, const Value& self,
                                             const std::optional<Value>& start,
                                             const std::optional<Value>& end) {
  const auto length = static_cast<int64_t>(self.text().length);
  const auto resolve = [length](const std::optional<Value>& bound,
                                int64_t fallback) -> absl::StatusOr<int64_t> {
    if (!bound || bound->is(Kind::kNone)) return fallback;
    OUTRIDER_ASSIGN_OR_RETURN(int64_t at, ToInteger(*bound));
    if (at < 0) at = std::max<int64_t>(at + length, 0);
    return at;
  };
  OUTRIDER_RETURN_IF_ERROR(budget.Search(Self(self).size()));
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t first, resolve(start, 0));
  OUTRIDER_ASSIGN_OR_RETURN(int64_t last, resolve(end, length));
  last = std::min(last, length);
  if (first > last) return std::optional<Part>();
  const size_t begin = ByteOffset(Self(self), static_cast<size_t>(first));
  const std::string_view rest = Self(self).substr(begin);
  return std::optional(Part{rest.substr(0, ByteOffset(rest, static_cast<size_t>(last - first))),
                            static_cast<size_t>(first)});
}

template <bool kFromEnd, bool kMustFind>
Result FindMethodOf(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", "", ""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view piece, ToText(*bound[0], "the text to find"));
  OUTRIDER_ASSIGN_OR_RETURN(const auto part, Restrict(budget, self, bound[1], bound[2]));
  size_t at = std::string_view::npos;
  if (part) at = kFromEnd ? FindLast(part->text, piece) : FindFirst(part->text, piece);
  if (at != std::string_view::npos) {
    return Value::Int(
        static_cast<int64_t>(part->start + CountCodePoints(part->text.substr(0, at))));
  }
  if (kMustFind) return InvalidArgument("substring not found");
  return Value::Int(-1);
}

Result CountMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", "", ""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view piece, ToText(*bound[0], "the text to count"));
  OUTRIDER_ASSIGN_OR_RETURN(const auto part, Restrict(budget, self, bound[1], bound[2]));
  return Value::Int(part ? static_cast<int64_t>(CountOccurrences(part->text, piece)) : 0);
}

bool HasAffix(std::string_view text, std::string_view affix, bool at_end) {
  return at_end ? text.ends_with(affix) : text.starts_with(affix);
}

template <bool kAtEnd>
Result AffixMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", "", ""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const auto part, Restrict(budget, self, bound[1], bound[2]));
  std::vector<Value> candidates{*bound[0]};
  if (bound[0]->is(Kind::kTuple)) candidates = bound[0]->sequence().items;
  OUTRIDER_RETURN_IF_ERROR(budget.ReadValues(candidates.size()));
  for (const Value& candidate : candidates) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view affix,
                              ToText(candidate, "what a text starts or ends with"));
    if (part && HasAffix(part->text, affix, kAtEnd)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kAtEnd>
Result RemoveAffix(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view affix, ToText(*bound[0], "what to remove"));
  std::string_view text = Self(self);
  if (!HasAffix(text, affix, kAtEnd)) return self;
  if (kAtEnd) {
    text.remove_suffix(affix.size());
  } else {
    text.remove_prefix(affix.size());
  }
  return MakeText(budget, std::string(text));
}

Result ReplaceMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", "", ""}, 2));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view from, ToText(*bound[0], "the text to replace"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view to, ToText(*bound[1], "the replacement"));
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t limit, OptionalInteger(bound[2], -1));
  return Replace(budget, Self(self), from, to, limit);
}

Result JoinMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Value> items, Collect(budget, *bound[0]));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::kString)) {
      return InvalidArgument("item ", i, " of join() must be a str, not ", TypeName(items[i]));
    }
  }
  return JoinTexts(budget, Self(self), items);
}

template <bool kFromEnd>
Result PartitionMethod(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view separator, ToText(*bound[0], "separator"));
  if (separator.empty()) return InvalidArgument("empty separator");
  const std::string_view text = Self(self);
  OUTRIDER_RETURN_IF_ERROR(budget.Search(text.size() + separator.size()));
  const size_t at = kFromEnd ? FindLast(text, separator) : FindFirst(text, separator);
  std::array<std::string_view, 3> pieces = {text, "", ""};
  if (at != std::string_view::npos) {
    pieces = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else if (kFromEnd) {
    pieces = {"", "", text};
  }
  std::vector<Value> items;
  for (const std::string_view piece : pieces) {
    OUTRIDER_ASSIGN_OR_RETURN(Value item, MakeText(budget, std::string(piece)));
    items.push_back(std::move(item));
  }
  return MakeTuple(budget, std::move(items));
}

// `before` and `after` fillers around the text.
Result Pad(Budget& budget, std::string_view text, std::string_view fill, int64_t before,
           int64_t after) {
  if (CountCodePoints(fill) != 1) {
    return InvalidArgument("the fill must be exactly one character long");
  }
  if (before + after > static_cast<int64_t>(Budget::kMaxTextBytes)) {
    return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
  }
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (int64_t i = 0; i < after; ++i) out += fill;
  return MakeText(budget, std::move(out));
}

// How many fillers a text of `length` needs; the width is from outside and may be anything.
int64_t Missing(int64_t width, size_t length) {
  return width > static_cast<int64_t>(length) ? width - static_cast<int64_t>(length) : 0;
}

struct Padding {
  int64_t width;
  std::string_view fill = " ";
};

absl::StatusOr<Padding> BindPadding(const Bound& bound) {
  Padding padding;
  OUTRIDER_ASSIGN_OR_RETURN(padding.width, ToInteger(*bound[0]));
  if (bound[1]) {
    OUTRIDER_ASSIGN_OR_RETURN(padding.fill, ToText(*bound[1], "the fill"));
  }
  return padding;
}

template <Side kSide>
Result Justify(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"", ""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const Padding padding, BindPadding(bound));
  if (kSide == Side::kBoth) return Center(budget, Self(self), padding.width, padding.fill);
  const int64_t missing = Missing(padding.width, self.text().length);
  return Pad(budget, Self(self), padding.fill, kSide == Side::kRight ? missing : 0,
             kSide == Side::kLeft ? missing : 0);
}

Result FillWithZeros(Budget& budget, const Value& self, const Arguments& arguments) {
  OUTRIDER_ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {""}, 1));
  OUTRIDER_ASSIGN_OR_RETURN(const int64_t width, ToInteger(*bound[0]));
  const std::string_view text = Self(self);
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  OUTRIDER_ASSIGN_OR_RETURN(const Value padded, Pad(budget, text.substr(sign), "0",
                                                    Missing(width, self.text().length), 0));
  return MakeText(budget, std::string(text.substr(0, sign)) + padded.text().bytes);
}

constexpr Entry kStringMethods[] = {
    {"capitalize", {}, Transform<Capitalize>},
    {"casefold", kUnsupported},
    {"center", {}, Justify<Side::kBoth>},
    {"count", {}, CountMethod},
    {"encode", kUnsupported},
    {"endswith", {}, AffixMethod<true>},
    {"expandtabs", kUnsupported},
    {"find", {}, FindMethodOf<false, false>},
    {"format", kUnsupported},
    {"format_map", kUnsupported},
    {"index", {}, FindMethodOf<false, true>},
    {"isalnum", {}, Ask<IsAlphanumeric>},
    {"isalpha", {}, Ask<IsAlpha>},
    {"isascii", kUnsupported},
    {"isdecimal", {}, Ask<IsDigit>},
    {"isdigit", {}, Ask<IsDigit>},
    {"isidentifier", kUnsupported},
    {"islower", {}, Ask<IsLower>},
    {"isnumeric", kUnsupported},
    {"isprintable", kUnsupported},
    {"isspace", {}, Ask<IsAllBlank>},
    {"istitle", kUnsupported},
    {"isupper", {}, Ask<IsUpper>},
    {"join", {}, JoinMethod},
    {"ljust", {}, Justify<Side::kLeft>},
    {"lower", {}, Transform<Lower>},
    {"lstrip", {}, StripMethod<Side::kLeft>},
    {"maketrans", kUnsupported},
    {"partition", {}, PartitionMethod<false>},
    {"removeprefix", {}, RemoveAffix<false>},
    {"removesuffix", {}, RemoveAffix<true>},
    {"replace", {}, ReplaceMethod},
    {"rfind", {}, FindMethodOf<true, false>},
    {"rindex", {}, FindMethodOf<true, true>},
    {"rjust", {}, Justify<Side::kRight>},
    {"rpartition", {}, PartitionMethod<true>},
    {"rsplit", {}, SplitMethod<SplitFromRight>},
    {"rstrip", {}, StripMethod<Side::kRight>},
    {"split", {}, SplitMethod<Split>},
    {"splitlines", {}, SplitLinesMethod},
    {"startswith", {}, AffixMethod<false>},
    {"strip", {}, StripMethod<Side::kBoth>},
    {"swapcase", {}, Transform<SwapCase>},
    {"title", {}, Transform<Title>},
    {"translate", kUnsupported},
    {"upper", {}, Transform<Upper>},
    {"zfill", {}, FillWithZeros},
};

}  // namespace

std::span<const MethodEntry> StringMethods() {
  return kStringMethods;
}

Result Replace(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
               int64_t limit) {
  OUTRIDER_RETURN_IF_ERROR(budget.Search(2 * text.size()));
  size_t count = CountOccurrences(text, from);
  if (limit >= 0) count = std::min(count, static_cast<size_t>(limit));
  if (to.size() > from.size() && count > Budget::kMaxTextBytes / (to.size() - from.size())) {
    return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
  }
  OUTRIDER_RETURN_IF_ERROR(budget.Spend(count));
  return MakeText(budget, ReplaceAll(text, from, to, limit));
}

Result JoinTexts(Budget& budget, std::string_view separator, const std::vector<Value>& items) {
  size_t size = 0;
  for (const Value& item : items) {
    size += item.text().bytes.size() + separator.size();
    if (size > Budget::kMaxTextBytes + separator.size()) {
      return InvalidArgument("a text grows beyond ", Budget::kMaxTextBytes >> 20, " MiB");
    }
  }
  std::string out;
  out.reserve(size);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    out += items[i].text().bytes;
  }
  return MakeText(budget, std::move(out));
}

Result Center(Budget& budget, std::string_view text, int64_t width, std::string_view fill) {
  const int64_t missing = Missing(width, CountCodePoints(text));
  const int64_t before = missing / 2 + (missing & width & 1);  // CPython's idea of the middle
  return Pad(budget, text, fill, before, missing - before);
}

}  // namespace outrider::jinja
