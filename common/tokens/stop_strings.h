// Finds the end of a text that is to stop before certain strings, while it arrives in pieces.
//
//   StopStringScanner scanner(strings);
//   std::cout << scanner.Add("Sure.\nUs");    // "Sure.": "\nUs" may yet become "\nUser:"
//   std::cout << scanner.Add("er: and");      // "", and scanner.matched()
//
// The text ends at the first byte that completes a stop string, and what is shown ends where that
// string begins; when several are completed at once, where the longest begins. So the outcome
// depends on the text alone, not on how it was cut into pieces. Withheld is the longest end of the
// text that begins a stop string: a byte less, and text already shown might have to be taken back.
//
// Strings are whole UTF-8 characters and so must be the pieces; then the shown text is, too.
//
// Cost: one step of a failure table (Knuth, Morris and Pratt) for each byte and string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

class StopStrings {
 public:
  static constexpr size_t kStringsMax = 64;
  static constexpr size_t kBytesMax = 1024;  // each

  // InvalidArgument when a string is empty, too long or no UTF-8, or there are too many.
  static absl::StatusOr<StopStrings> Create(const std::vector<std::string>& strings);

  StopStrings() = default;  // none

 private:
  friend class StopStringScanner;

  struct Pattern {
    std::string text;
    std::vector<uint32_t> fallback;  // [n]: the longest end of the first n bytes that begins them
  };

  static Pattern Prepare(const std::string& text);

  std::vector<Pattern> patterns_;
};

class StopStringScanner {
 public:
  // `strings` must outlive it.
  explicit StopStringScanner(const StopStrings& strings);

  // The text that may be shown now; withheld text of earlier pieces comes first. Not to be called
  // once matched().
  std::string Add(std::string_view piece);

  // A stop string is complete; nothing follows.
  bool matched() const { return matched_; }

  // The text ends without a match: what was withheld.
  std::string Finish();

 private:
  size_t Advance(char byte);
  size_t LongestBegun() const;

  const StopStrings* strings_;
  std::vector<uint32_t> begun_;  // how many bytes of each string the text ends with
  std::string withheld_;
  bool matched_ = false;
};

}  // namespace outrider
