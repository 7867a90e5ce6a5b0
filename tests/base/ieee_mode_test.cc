#include "common/base/ieee_mode.h"

#include <cfenv>
#include <limits>
#include <vector>

#include "common/base/thread_pool.h"
#include "gtest/gtest.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace outrider {
namespace {

// Arithmetic at run time: what the compiler folds does not ask the processor.
volatile double least_normal = std::numeric_limits<double>::min();
volatile double least_subnormal = std::numeric_limits<double>::denorm_min();
volatile double half = 0.5;
volatile double one = 1;
volatile double three = 3;

bool SubnormalResultsSurvive() {
  return least_normal * half != 0;
}

// Multiplied up, where a flushed operand stays zero.
bool SubnormalOperandsSurvive() {
  return least_subnormal * 0x1p1000 == 0x1p-74;
}

bool FlushesToZero() {
  return !SubnormalResultsSurvive() && !SubnormalOperandsSurvive();
}

#if defined(__x86_64__)
void FlushToZero() {
  _mm_setcsr(_mm_getcsr() | 1u << 15 | 1u << 6);
}
#elif defined(__aarch64__)
void FlushToZero() {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | 1u << 24));
}
#endif

// Leaves the thread as it found it, whatever the test does to it.
class IeeeModeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(std::fegetenv(&environment_), 0); }
  void TearDown() override { std::fesetenv(&environment_); }

 private:
  std::fenv_t environment_;
};

TEST_F(IeeeModeTest, HonoursSubnormalsInsideAndRestoresFlushingAfter) {
  ASSERT_TRUE(SubnormalResultsSurvive());
  FlushToZero();
  ASSERT_TRUE(FlushesToZero());
  {
    const ScopedIeeeMode ieee_mode;
    EXPECT_TRUE(SubnormalResultsSurvive());
    EXPECT_TRUE(SubnormalOperandsSurvive());
  }
  EXPECT_TRUE(FlushesToZero());
}

TEST_F(IeeeModeTest, RoundsToNearestInsideAndRestoresTheRoundingAfter) {
  const double nearest = one / three;
  std::fesetround(FE_UPWARD);
  const double upward = one / three;
  ASSERT_NE(nearest, upward);
  {
    const ScopedIeeeMode ieee_mode;
    EXPECT_EQ(one / three, nearest);
  }
  EXPECT_EQ(one / three, upward);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
}

TEST_F(IeeeModeTest, ChangesNothingWhereNothingIsWrong) {
  { const ScopedIeeeMode ieee_mode; }
  EXPECT_TRUE(SubnormalResultsSurvive());
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

// Threads inherit the mode of the thread that starts them, so a pool made by a program that flushes
// would flush.
TEST_F(IeeeModeTest, HoldsOnEveryThreadOfAPool) {
  FlushToZero();
  absl::StatusOr<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(3);
  ASSERT_TRUE(pool.ok()) << pool.status();
  std::vector<int> survive(3, 0);
  (*pool)->ParallelRanges(3, [&](size_t, size_t, uint32_t worker) {
    survive[worker] = SubnormalResultsSurvive() && SubnormalOperandsSurvive();
  });
  EXPECT_EQ(survive, std::vector<int>(3, 1));
  EXPECT_TRUE(FlushesToZero()) << "the caller's own mode is back after the loop";
}

}  // namespace
}  // namespace outrider
