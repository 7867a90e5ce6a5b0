// Errors that somebody outside can cause: a file, a flag, a frame, the machine.
//
// Every fallible function returns absl::Status or absl::StatusOr. The code says what to do next
// (and is gRPC's, so the edge forwards it); the message is one sentence that names the thing, the
// place and the fix. What only our own bug can cause is an OUTRIDER_CHECK (check.h) instead.
//
//   absl::StatusOr<Header> ReadHeader(const std::string& path) {
//     OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
//     if (text.size() < 24) {
//       return InvalidArgument(path, ": has ", text.size(), " bytes, a header needs 24");
//     }
//     return ParseHeader(text);
//   }
//
// The constructors below take pieces rather than a format string because bookworm's Abseil has its
// own string_view, which absl::StrCat insists on and std::string_view does not convert to.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

namespace status_internal {

inline void Append(std::string& out, std::string_view text) {
  out.append(text);
}

// A template so that no pointer decays into it.
template <std::same_as<bool> Bool>
void Append(std::string& out, Bool value) {
  out.append(value ? "true" : "false");
}

template <typename Number>
requires((std::integral<Number> || std::floating_point<Number>)&&!std::same_as<Number, bool> &&
         !std::same_as<Number, char>) void Append(std::string& out, Number value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end);
}

template <std::same_as<char> Char>
void Append(std::string& out, Char value) {
  out.push_back(value);
}

}  // namespace status_internal

// "blk." + 3 + ".attn_q": strings, characters, booleans and numbers (shortest form that reads back)
// joined.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  (status_internal::Append(out, parts), ...);
  return out;
}

// The caller must change what it asked for, or the file it named.
template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(Concat(parts...));
}

// The thing named is not there.
template <typename... Parts>
absl::Status NotFound(const Parts&... parts) {
  return absl::NotFoundError(Concat(parts...));
}

// The machine or the build has to change first.
template <typename... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(Concat(parts...));
}

// A bounded thing is full; try again later or with less.
template <typename... Parts>
absl::Status ResourceExhausted(const Parts&... parts) {
  return absl::ResourceExhaustedError(Concat(parts...));
}

// Well-formed, and beyond what this version does.
template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(Concat(parts...));
}

// Bytes that were there can no longer be read.
template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(Concat(parts...));
}

// The one place where errno becomes a Status: "model.gguf: cannot open: No such file or directory".
absl::Status ErrnoStatus(int error_number, std::string_view context);

// The same status with `context` and ": " in front of its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// message() as the standard's view.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace outrider

// Returns from the enclosing function when `expression`, a Status, is not OK.
#define OUTRIDER_RETURN_IF_ERROR(expression)                                  \
  do {                                                                        \
    if (absl::Status outrider_status = (expression); !outrider_status.ok()) { \
      return outrider_status;                                                 \
    }                                                                         \
  } while (false)

// Declares or assigns `target` from a StatusOr, or returns its error.
#define OUTRIDER_ASSIGN_OR_RETURN(target, expression) \
  OUTRIDER_ASSIGN_OR_RETURN_NAMED(OUTRIDER_JOIN(outrider_result_, __LINE__), target, expression)
#define OUTRIDER_ASSIGN_OR_RETURN_NAMED(result, target, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return std::move(result).status();              \
  target = *std::move(result)
#define OUTRIDER_JOIN(a, b) OUTRIDER_JOIN_INNER(a, b)
#define OUTRIDER_JOIN_INNER(a, b) a##b
