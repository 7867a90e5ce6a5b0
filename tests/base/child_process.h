// Runs a piece of a test in a child process, whose limits, mounts and system calls may be spoiled
// without harm to the other tests.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace outrider {

// What a child says when this machine does not let it set its scene: the test is skipped.
inline constexpr int kNotAllowed = 77;

// What `body` returned: 0 for good, by convention.
template <typename Body>
int ExitCodeOfChild(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct RefusedCall {
  long number;            // SYS_openat
  int error_number;       // EINVAL
  uint32_t argument = 0;  // refused only when this argument
  uint32_t mask = ~0u;    // has one of these bits; by default, any of the 32 lowest
};

// From here on this process's kernel refuses `calls`, as sandboxes do. False when it refuses that.
inline bool RefuseCalls(const std::vector<RefusedCall>& calls) {
  std::vector<sock_filter> filter;
  for (const RefusedCall& call : calls) {
    const auto argument_at =
        static_cast<uint32_t>(offsetof(seccomp_data, args) + call.argument * sizeof(uint64_t));
    filter.insert(
        filter.end(),
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call.number), 0, 3),
         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_at),
         BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, call.mask, 0, 1),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(call.error_number))});
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program = {.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace outrider
