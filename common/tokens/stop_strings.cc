#include "common/tokens/stop_strings.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

absl::StatusOr<StopStrings> StopStrings::Create(const std::vector<std::string>& strings) {
  if (strings.size() > kStringsMax) {
    return InvalidArgument(strings.size(), " stop strings are given: at most ", kStringsMax,
                           " can be watched for");
  }
  StopStrings result;
  for (const std::string& text : strings) {
    if (text.empty())
      return InvalidArgument("a stop string is empty: every text would end at once");
    if (text.size() > kBytesMax) {
      return InvalidArgument("a stop string of ", text.size(), " bytes is too long: at most ",
                             kBytesMax, " are withheld");
    }
    std::string mended;
    if (ValidUtf8(text, mended) != text) {
      return InvalidArgument("stop string ", Quote(text), " is not UTF-8: no text contains it");
    }
    result.patterns_.push_back(Prepare(text));
  }
  return result;
}

StopStrings::Pattern StopStrings::Prepare(const std::string& text) {
  Pattern pattern = {text, std::vector<uint32_t>(text.size(), 0)};
  uint32_t begun = 0;
  for (size_t n = 1; n < text.size(); ++n) {
    pattern.fallback[n] = begun;
    while (begun > 0 && text[n] != text[begun]) begun = pattern.fallback[begun];
    if (text[n] == text[begun]) ++begun;
  }
  return pattern;
}

StopStringScanner::StopStringScanner(const StopStrings& strings)
    : strings_(&strings), begun_(strings.patterns_.size(), 0) {}

std::string StopStringScanner::Add(std::string_view piece) {
  OUTRIDER_CHECK(!matched_, "a text goes no further than its stop string");
  for (const char byte : piece) {
    withheld_.push_back(byte);
    if (const size_t length = Advance(byte); length > 0) {
      matched_ = true;
      withheld_.resize(withheld_.size() - length);
      return std::exchange(withheld_, {});
    }
  }
  const size_t shown = withheld_.size() - LongestBegun();
  std::string text = withheld_.substr(0, shown);
  withheld_.erase(0, shown);
  return text;
}

std::string StopStringScanner::Finish() {
  return std::exchange(withheld_, {});
}

// The length of the longest string that `byte` completes, or 0.
size_t StopStringScanner::Advance(char byte) {
  size_t longest = 0;
  for (size_t i = 0; i < begun_.size(); ++i) {
    const StopStrings::Pattern& pattern = strings_->patterns_[i];
    uint32_t& begun = begun_[i];
    while (begun > 0 && pattern.text[begun] != byte) begun = pattern.fallback[begun];
    if (pattern.text[begun] == byte) ++begun;
    if (begun == pattern.text.size()) longest = std::max(longest, pattern.text.size());
  }
  return longest;
}

size_t StopStringScanner::LongestBegun() const {
  return begun_.empty() ? 0 : *std::max_element(begun_.begin(), begun_.end());
}

}  // namespace outrider
