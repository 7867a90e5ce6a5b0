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
  }
  return StopStrings(strings);
}

// What is below a state are the strings that begin with its text: neighbours, once they are sorted.
StopStrings::StopStrings(std::vector<std::string> strings) {
  std::ranges::sort(strings);
  struct Range {
    size_t begin;
    size_t end;
  };
  std::vector<Range> below = {{0, strings.size()}};  // by state
  for (uint32_t parent = 0; parent < states_.size(); ++parent) {
    const size_t depth = states_[parent].depth;
    auto [i, end] = below[parent];
    while (i < end && strings[i].size() == depth) ++i;  // it is the parent's text
    states_[parent].first_child = static_cast<uint32_t>(states_.size());
    while (i < end) {
      const auto byte = static_cast<uint8_t>(strings[i][depth]);
      const size_t begin = i;
      while (i < end && static_cast<uint8_t>(strings[i][depth]) == byte) ++i;
      State child = {.depth = static_cast<uint16_t>(depth + 1), .byte = byte};
      if (parent > 0) child.fallback = Next(states_[parent].fallback, byte);
      const bool is_whole = strings[begin].size() == child.depth;
      child.matched = is_whole ? child.depth : states_[child.fallback].matched;
      states_.push_back(child);
      below.push_back({begin, i});
      ++states_[parent].child_count;
    }
  }
}

std::optional<uint32_t> StopStrings::Child(uint32_t state, uint8_t byte) const {
  const auto first = states_.begin() + states_[state].first_child;
  const auto end = first + states_[state].child_count;
  const auto found = std::ranges::lower_bound(first, end, byte, {}, &State::byte);
  if (found == end || found->byte != byte) return std::nullopt;
  return static_cast<uint32_t>(found - states_.begin());
}

uint32_t StopStrings::Next(uint32_t state, uint8_t byte) const {
  for (;;) {
    if (const std::optional<uint32_t> child = Child(state, byte)) return *child;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

StopStringScanner::StopStringScanner(const StopStrings& strings) : strings_(&strings) {}

std::string StopStringScanner::Add(std::string_view piece) {
  OUTRIDER_CHECK(!matched_, "a text goes no further than its stop string");
  for (const char byte : piece) {
    withheld_.push_back(byte);
    state_ = strings_->Next(state_, static_cast<uint8_t>(byte));
    if (const size_t length = strings_->states_[state_].matched; length > 0) {
      matched_ = true;
      withheld_.resize(withheld_.size() - length);
      return std::exchange(withheld_, {});
    }
  }
  const size_t shown = withheld_.size() - strings_->states_[state_].depth;
  std::string text = withheld_.substr(0, shown);
  withheld_.erase(0, shown);
  return text;
}

std::string StopStringScanner::Finish() {
  return std::exchange(withheld_, {});
}

}  // namespace outrider
