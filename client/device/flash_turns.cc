#include "client/device/flash_turns.h"

#include <chrono>
#include <thread>

namespace outrider {
namespace {

// How late a layer that has landed is seen, at the most: little beside the milliseconds it takes to
// read one.
constexpr auto kLook = std::chrono::microseconds(50);

}  // namespace

void FlashTurns::Lend(const std::atomic<bool>& landed) {
  Set(false);
  while (!landed.load(std::memory_order_acquire)) std::this_thread::sleep_for(kLook);
  Set(true);
}

void FlashTurns::Await() {
  MutexLock lock(mu_);
  while (computes_) ended_.Wait(mu_);
}

void FlashTurns::Set(bool computes) {
  {
    MutexLock lock(mu_);
    computes_ = computes;
  }
  if (!computes) ended_.NotifyAll();
}

}  // namespace outrider
