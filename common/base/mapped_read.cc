#include "common/base/mapped_read.h"

#include <setjmp.h>
#include <signal.h>

#include "common/base/check.h"

namespace outrider {
namespace {

// Of the thread: where a read goes on that cannot, and why.
thread_local sigjmp_buf* way_out = nullptr;
thread_local const std::byte* lost = nullptr;

void OnSigbus(int signal, siginfo_t* info, void*) {
  if (way_out == nullptr) {
    // Not one of ours: it comes again when this returns, and ends the process.
    ::signal(signal, SIG_DFL);
    return;
  }
  lost = static_cast<const std::byte*>(info->si_addr);
  siglongjmp(*way_out, 1);
}

bool TakeSigbusOver() {
  struct sigaction action = {};
  action.sa_sigaction = OnSigbus;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

std::optional<const std::byte*> ReadMapped(absl::FunctionRef<void()> copy) {
  static const bool is_taken = TakeSigbusOver();
  OUTRIDER_CHECK(is_taken && way_out == nullptr, "one read at a time, with the signal taken over");
  sigjmp_buf here;
  if (sigsetjmp(here, /*savemask=*/1) != 0) {
    way_out = nullptr;
    return lost;
  }
  way_out = &here;
  copy();
  way_out = nullptr;
  return std::nullopt;
}

}  // namespace outrider
