// First in, first out, and never more than it was made for.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace outrider {

template <typename Item>
class BoundedRing {
 public:
  explicit BoundedRing(size_t capacity) : items_(capacity) {}

  bool empty() const { return count_ == 0; }
  size_t capacity() const { return items_.size(); }
  void Push(const Item& item) {
    OUTRIDER_CHECK(count_ < items_.size(), "a ring has room for what is pushed");
    items_[(first_ + count_++) % items_.size()] = item;
  }
  Item Pop() {
    OUTRIDER_CHECK(count_ > 0, "only what is in a ring is popped");
    --count_;
    return items_[std::exchange(first_, (first_ + 1) % items_.size())];
  }
  // What is in it stays.
  void GrowBy(size_t count) {
    BoundedRing larger(items_.size() + count);
    while (!empty()) larger.Push(Pop());
    *this = std::move(larger);
  }

 private:
  std::vector<Item> items_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace outrider
