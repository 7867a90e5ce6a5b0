// Says, from another thread, that the answer to a question under way is not wanted any more. Whoever
// works on it looks now and then, where stopping is cheap.
#pragma once

#include <atomic>

namespace outrider {

class Cancellation {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  // For another question.
  void Renew() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // One that nobody cancels.
  static const Cancellation& Never() {
    static const Cancellation never;
    return never;
  }

 private:
  std::atomic<bool> cancelled_ = false;
};

}  // namespace outrider
