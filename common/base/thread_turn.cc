#include "common/base/thread_turn.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace outrider {
namespace {

constexpr std::chrono::nanoseconds kPromptTurn = std::chrono::microseconds(100);  // the least
constexpr std::chrono::nanoseconds kPatientTurn = std::chrono::milliseconds(30);
constexpr uint64_t kResetOnFork = 1;

// The kernel's struct sched_attr, whose header declares what glibc's <sched.h> declares too.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t turn_ns = 0;  // of the usual policy; the rest belongs to others
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

void SetTurn(std::chrono::nanoseconds turn) {
  constexpr pid_t kThisThread = 0;
  Attributes attributes;
  if (syscall(SYS_sched_getattr, kThisThread, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.flags |= kResetOnFork;
  attributes.turn_ns = static_cast<uint64_t>(turn.count());
  syscall(SYS_sched_setattr, kThisThread, &attributes, 0);
}

}  // namespace

void BePrompt() {
  SetTurn(kPromptTurn);
}

void BePatient() {
  SetTurn(kPatientTurn);
}

}  // namespace outrider
