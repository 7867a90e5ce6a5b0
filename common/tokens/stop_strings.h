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
// All strings are watched for at once, by the automaton of Aho and Corasick: a state is the longest
// end of the text that begins a string, and its depth how much of the text that is. States are
// numbered by depth, so that the children of one stand together, in the order of their bytes:
//
//   {"he", "hers", "she"}   0 ""   1 "h" 2 "s"   3 "he" 4 "sh"   5 "her" 6 "she"   7 "hers"
//                           "she" falls back to "he", and so does "her" to "": no string has an "r"
//
// Cost:   a byte takes a step down and as many back as have gone down before, whatever number of
//         strings there are; a step looks for a byte among those that strings go on with.
// Memory: 16 bytes for each byte of the strings, 1 MiB at the most.
#pragma once

#include <cstdint>
#include <optional>
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

  struct State {
    uint32_t first_child = 0;
    uint32_t fallback = 0;  // the longest end of its text, less than all, that is a state too
    uint16_t depth = 0;     // bytes of its text
    uint16_t matched = 0;   // of the longest string that its text ends with, or 0
    uint8_t child_count = 0;
    uint8_t byte = 0;  // the last one of its text
  };
  static_assert(kStringsMax <= UINT8_MAX && kBytesMax <= UINT16_MAX);

  explicit StopStrings(std::vector<std::string> strings);

  std::optional<uint32_t> Child(uint32_t state, uint8_t byte) const;
  uint32_t Next(uint32_t state, uint8_t byte) const;

  std::vector<State> states_ = {State()};  // the first is the text of nothing
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
  const StopStrings* strings_;
  uint32_t state_ = 0;
  std::string withheld_;
  bool matched_ = false;
};

}  // namespace outrider
