// A bounded queue between threads that hands out the highest priority first, and among equals the
// oldest.
//
//   BoundedPriorityQueue<Hint> hints(64);
//   switch (hints.TryPush(probability, std::move(hint))) ...       // the producer never waits
//   while (std::optional<Hint> hint = hints.Pop()) Send(*hint);    // until closed and empty
//
// Full is an answer and not a wait: TryPush() refuses (the caller keeps its value), while
// PushOrEvict() lets the newcomer displace the lowest priority if that is lower than its own. For
// things that can be superseded, such as hints, the latter loses only what mattered least.
//
// Close() is for the end: nothing is accepted any more, what is queued can still be popped, and
// then Pop() answers nullopt instead of waiting.
//
// Threads: any number on either side.
// Memory:  `capacity` entries, taken once by the constructor; nothing allocates afterwards.
// Cost:    log(capacity) moves to push and pop; PushOrEvict() into a full queue looks at all of it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

enum class PushAnswer {
  kAccepted,
  kFull,  // and, from PushOrEvict(), nothing in it had a lower priority
  kClosed,
};

template <typename T, std::totally_ordered Priority = double>
class BoundedPriorityQueue {
 public:
  // Waits with a deadline go by `clock`, which outlives the queue.
  explicit BoundedPriorityQueue(size_t capacity, Clock& clock = RealClock())
      : capacity_(capacity), clock_(clock) {
    OUTRIDER_CHECK(capacity > 0, "a queue has room for something");
    MutexLock lock(mu_);
    heap_.reserve(capacity);
  }
  BoundedPriorityQueue(const BoundedPriorityQueue&) = delete;
  BoundedPriorityQueue& operator=(const BoundedPriorityQueue&) = delete;

  // `value` is moved from only when accepted. A priority is a number: NaN is refused where it
  // enters the process, not here.
  PushAnswer TryPush(Priority priority, T&& value) {
    OUTRIDER_CHECK(priority == priority, "priorities are ordered, NaN is not");
    {
      MutexLock lock(mu_);
      if (closed_) return PushAnswer::kClosed;
      if (heap_.size() == capacity_) return PushAnswer::kFull;
      Insert(priority, std::move(value));
    }
    pushed_.NotifyOne();
    return PushAnswer::kAccepted;
  }

  // As TryPush(), but when full the lowest entry (of equals, the youngest) makes room for a higher
  // one and is handed to `evicted`, if the caller wants it.
  PushAnswer PushOrEvict(Priority priority, T&& value, std::optional<T>* evicted = nullptr) {
    OUTRIDER_CHECK(priority == priority, "priorities are ordered, NaN is not");
    {
      MutexLock lock(mu_);
      if (closed_) return PushAnswer::kClosed;
      if (heap_.size() == capacity_) {
        const auto lowest = std::min_element(heap_.begin(), heap_.end(), ServedLater);
        if (!(lowest->priority < priority)) return PushAnswer::kFull;
        if (evicted != nullptr) *evicted = std::move(lowest->value);
        RemoveLeaf(lowest);
      }
      Insert(priority, std::move(value));
    }
    pushed_.NotifyOne();
    return PushAnswer::kAccepted;
  }

  // Waits for an entry; nullopt when closed and empty.
  std::optional<T> Pop() {
    MutexLock lock(mu_);
    while (heap_.empty() && !closed_) pushed_.Wait(mu_);
    return Take();
  }

  // As Pop(), but waits no longer than until `deadline`.
  std::optional<T> PopUntil(MonotonicTime deadline) {
    MutexLock lock(mu_);
    while (heap_.empty() && !closed_) {
      if (!clock_.WaitUntil(mu_, pushed_, deadline)) break;
    }
    return Take();
  }
  std::optional<T> PopFor(Duration duration) { return PopUntil(clock_.Now() + duration); }

  // As Pop(), but does not wait.
  std::optional<T> TryPop() {
    MutexLock lock(mu_);
    return Take();
  }

  // Once or more often.
  void Close() {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    pushed_.NotifyAll();
  }

  bool closed() const {
    MutexLock lock(mu_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(mu_);
    return heap_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  struct Entry {
    Priority priority;
    uint64_t number;  // of the push: the lower, the older
    T value;
  };
  using Iterator = typename std::vector<Entry>::iterator;

  static bool ServedLater(const Entry& a, const Entry& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.number > b.number;
  }

  void Insert(Priority priority, T&& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    heap_.push_back({std::move(priority), pushes_++, std::move(value)});
    std::push_heap(heap_.begin(), heap_.end(), ServedLater);
  }

  std::optional<T> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (heap_.empty()) return std::nullopt;
    std::pop_heap(heap_.begin(), heap_.end(), ServedLater);
    std::optional<T> value(std::move(heap_.back().value));
    heap_.pop_back();
    return value;
  }

  // The last entry takes the leaf's place and rises from there: the heap that ends at the leaf is
  // one push_heap short of being in order.
  void RemoveLeaf(Iterator leaf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (leaf != heap_.end() - 1) {
      *leaf = std::move(heap_.back());
      std::push_heap(heap_.begin(), leaf + 1, ServedLater);
    }
    heap_.pop_back();
  }

  const size_t capacity_;
  Clock& clock_;

  mutable Mutex mu_;
  CondVar pushed_;                                // or closed
  std::vector<Entry> heap_ ABSL_GUARDED_BY(mu_);  // at most capacity_; the first is served next
  uint64_t pushes_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;  // for good
};

}  // namespace outrider
