// Every entry of a fixed set that a text begins with, found in one walk over its bytes.
//
// A trie in three flat arrays: the children of a node lie side by side, so a step is a memchr over
// their labels. Memory: nine bytes a node, at most one node per byte of all entries.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

class TokenTrie {
 public:
  // A text, not empty, and its value, not negative. Where two entries have the same text the first
  // counts.
  using Entry = std::pair<std::string_view, int32_t>;
  explicit TokenTrie(std::vector<Entry> entries);

  // Calls visit(length, value) for every entry that is a prefix of `text`, shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const;

 private:
  static constexpr int32_t kNoValue = -1;

  // Node 0 is the root. The children of node n are the nodes child_begin_[n] to child_begin_[n +
  // 1].
  std::vector<uint32_t> child_begin_;
  std::vector<char> label_;               // the byte that leads to the node
  std::vector<int32_t> value_;            // of the entry that ends at the node
  std::array<uint32_t, 256> first_step_;  // from the root by byte; 0: no such child
};

template <typename Visit>
void TokenTrie::ForEachPrefix(std::string_view text, Visit visit) const {
  if (text.empty()) return;
  uint32_t node = first_step_[static_cast<unsigned char>(text[0])];
  if (node == 0) return;
  for (size_t length = 1;; ++length) {
    if (value_[node] != kNoValue) visit(length, value_[node]);
    const uint32_t begin = child_begin_[node];
    const size_t children = child_begin_[node + 1] - begin;
    if (length == text.size() || children == 0) return;
    const void* found =
        std::memchr(&label_[begin], static_cast<unsigned char>(text[length]), children);
    if (found == nullptr) return;
    node = static_cast<uint32_t>(static_cast<const char*>(found) - label_.data());
  }
}

}  // namespace outrider
