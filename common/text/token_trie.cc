#include "common/text/token_trie.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  const auto same_text = [](const Entry& a, const Entry& b) { return a.first == b.first; };
  entries.erase(std::unique(entries.begin(), entries.end(), same_text), entries.end());
  OUTRIDER_CHECK(entries.empty() || !entries[0].first.empty(), "a trie entry has a text");

  // Breadth first: a node is the range of sorted entries that share its path.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  label_.push_back('\0');
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    const bool ends_here = begin < end && entries[begin].first.size() == depth;
    value_.push_back(ends_here ? entries[begin].second : kNoValue);
    child_begin_.push_back(static_cast<uint32_t>(ranges.size()));
    if (ends_here) ++begin;
    while (begin < end) {
      const char label = entries[begin].first[depth];
      size_t next = begin;
      while (next < end && entries[next].first[depth] == label) ++next;
      ranges.push_back({begin, next, depth + 1});
      label_.push_back(label);
      begin = next;
    }
    OUTRIDER_CHECK(ranges.size() < UINT32_MAX, "a vocabulary is smaller than 4 GiB");
  }
  child_begin_.push_back(static_cast<uint32_t>(ranges.size()));

  first_step_.fill(0);
  for (uint32_t child = child_begin_[0]; child < child_begin_[1]; ++child) {
    first_step_[static_cast<unsigned char>(label_[child])] = child;
  }
}

}  // namespace outrider
