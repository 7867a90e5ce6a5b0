// Work in virtual time, on a processor that may stand still at times.
#include "bench/simulator/world/processor.h"

#include <chrono>

#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// When work is done that is asked for then, after everything that was asked for before. From when
// virtual time begins, which is a whole number of stalls.
class Done {
 public:
  explicit Done(const Stalls& stalls) : processor_(events_, stalls) {}

  Duration operator()(Duration at, Duration work) {
    MonotonicTime done{};
    events_.At(begin_ + at, [&] { done = processor_.Take(work); });
    while (events_.RunNext()) {
    }
    return done - begin_;
  }

 private:
  const MonotonicTime begin_ = EventQueue().now();

  EventQueue events_;
  Processor processor_;
};

TEST(Processor, DoesOneThingAfterTheOther) {
  Done done({});
  const Duration first = done(milliseconds(0), milliseconds(20));
  EXPECT_EQ(first, milliseconds(20));
  EXPECT_EQ(done(milliseconds(10), milliseconds(20)), milliseconds(40));
}

TEST(Processor, MovesOnAfterEachStall) {
  const Stalls stalls = {.length = milliseconds(100), .every = milliseconds(300)};
  EXPECT_EQ(Done(stalls)(milliseconds(100), milliseconds(50)), milliseconds(150));
  EXPECT_EQ(Done(stalls)(milliseconds(40), milliseconds(50)), milliseconds(150));
  EXPECT_EQ(Done(stalls)(milliseconds(290), milliseconds(50)), milliseconds(440));
  EXPECT_EQ(Done(stalls)(milliseconds(100), milliseconds(450)), milliseconds(750));
}

}  // namespace
}  // namespace outrider
