// How long the calling thread's turns are, as the kernel has it; 0 where all are of one length.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace outrider {

inline uint64_t TurnNs() {
  constexpr size_t kRuntimeAt = 24;  // in the kernel's struct sched_attr
  std::array<char, 56> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0), 0);
  uint64_t turn = 0;
  std::memcpy(&turn, attributes.data() + kRuntimeAt, sizeof(turn));
  return turn;
}

}  // namespace outrider
