// The methods of str, dict, list and tuple that templates may call, and what else Python has there.
#pragma once

#include <span>
#include <string_view>

#include "common/text/jinja/objects.h"

namespace outrider::jinja {

struct MethodEntry {
  enum class Status : uint8_t {
    kSupported,
    kForbidden,    // it would change its object: the sandbox refuses it
    kUnsupported,  // Python has it, this does not
  };
  std::string_view name;
  Status status = Status::kSupported;
  Method::Call call = nullptr;
};

inline constexpr auto kUnsupported = MethodEntry::Status::kUnsupported;

// Null when the type of `object` has no attribute of that name.
const MethodEntry* FindMethod(const Value& object, std::string_view name);

// The table of str, which stands in a file of its own.
std::span<const MethodEntry> StringMethods();

// str.replace with a check of the size first; `limit` as in ReplaceAll.
Result Replace(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
               int64_t limit);
// separator.join(items)
Result JoinTexts(Budget& budget, std::string_view separator, const std::vector<Value>& items);
// str.center
Result Center(Budget& budget, std::string_view text, int64_t width, std::string_view fill);

}  // namespace outrider::jinja
