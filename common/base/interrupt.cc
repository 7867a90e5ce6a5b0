#include "common/base/interrupt.h"

#include <signal.h>

namespace outrider {
namespace {

volatile sig_atomic_t interrupted = 0;

void Remember(int) {
  interrupted = 1;
}

}  // namespace

void CatchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = Remember;
  // Not SA_RESTART: a read from the terminal ends too.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() {
  return interrupted != 0;
}

}  // namespace outrider
