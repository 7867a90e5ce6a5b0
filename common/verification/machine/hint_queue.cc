#include "common/verification/machine/hint_queue.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

bool SameOutcome(const v1::Hint& a, const v1::Hint& b) {
  return a.verdict() == b.verdict() && a.leaf() == b.leaf() && a.next() == b.next();
}

}  // namespace

bool HintQueue::Add(const v1::Hint& hint, double rank) {
  const auto begin = waiting_.begin();
  const auto end = begin + static_cast<ptrdiff_t>(count_);
  const auto same =
      std::find_if(begin, end, [&](const Waiting& w) { return SameOutcome(w.hint, hint); });
  if (same != end) {
    same->hint = hint;
    same->rank = rank;
    return true;
  }
  if (SameOutcome(taken_, hint) && taken_.probability() == hint.probability()) return false;
  waiting_[count_++] = {hint, rank, ++last_number_};
  if (count_ > kMax) {
    const auto last = std::max_element(begin, waiting_.end(), GoesBefore);
    Drop(static_cast<size_t>(last - begin));
  }
  return true;
}

bool HintQueue::GoesBefore(const Waiting& a, const Waiting& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.number < b.number;
}

const v1::Hint& HintQueue::TakeFirst() {
  OUTRIDER_CHECK(!empty(), "what is taken waits");
  const auto begin = waiting_.begin();
  const auto first = std::min_element(begin, begin + static_cast<ptrdiff_t>(count_), GoesBefore);
  taken_.Swap(&first->hint);
  Drop(static_cast<size_t>(first - begin));
  return taken_;
}

size_t HintQueue::Clear() {
  return std::exchange(count_, 0);
}

void HintQueue::Drop(size_t place) {
  std::swap(waiting_[place], waiting_[--count_]);
}

}  // namespace outrider
