#include "server/free_memory.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/config.h"
#include "common/base/process_memory.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

// As calls do, which come and go together with what stays a while longer.
TEST(FreeMemory, HolesInTheHeapGoBackToTheKernel) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER) || \
    !defined(__GLIBC__)
  GTEST_SKIP() << "another allocator has its own ways";
#endif
  FreeMemory free_memory;
  free_memory.LookNow();
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "this kernel does not say what a process has";
  std::vector<std::unique_ptr<std::vector<char>>> stay;
  {
    std::vector<std::unique_ptr<std::vector<char>>> go;
    for (int i = 0; i < 2000; ++i) {
      go.push_back(std::make_unique<std::vector<char>>(30'000, 'x'));
      if (i % 20 == 0) stay.push_back(std::make_unique<std::vector<char>>(500, 'y'));
    }
  }
  EXPECT_GT(ResidentBytes(), before + (uint64_t{40} << 20));  // holes, which are still its own
  free_memory.LookNow();
  EXPECT_LT(ResidentBytes(), before + (uint64_t{16} << 20));
  EXPECT_EQ(stay.back()->back(), 'y');
}

}  // namespace
}  // namespace outrider
