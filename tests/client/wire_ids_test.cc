#include "client/session/wire_ids.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// What evaporates before it is sent leaves a gap in the sketch's ids, and none on the wire.
TEST(WireIds, AreKnownByEitherSide) {
  WireIds ids(8);
  EXPECT_EQ(ids.Add(3), 1u);
  EXPECT_EQ(ids.Add(4), 2u);
  EXPECT_EQ(ids.Add(7), 3u);
  EXPECT_EQ(ids.OnWire(7), 3u);
  EXPECT_EQ(ids.InSketch(2), 4u);
  EXPECT_EQ(ids.OnWire(5), std::nullopt);
  EXPECT_EQ(ids.InSketch(4), std::nullopt);
  EXPECT_EQ(ids.InSketch(0), Sketch::kRoot);
}

TEST(WireIds, FindTheLastNodeThatTheOtherSideHad) {
  WireIds ids(8);
  EXPECT_EQ(ids.UpTo(5), Sketch::kRoot);
  for (const NodeId node : {3, 4, 7}) ids.Add(node);
  EXPECT_EQ(ids.UpTo(0), Sketch::kRoot);
  EXPECT_EQ(ids.UpTo(1), 3u);
  EXPECT_EQ(ids.UpTo(2), 4u);
  EXPECT_EQ(ids.UpTo(9), 7u);
  Sketch sketch(8);
  ids.Retain(sketch);
  EXPECT_EQ(ids.UpTo(9), Sketch::kRoot) << "all have gone";
}

}  // namespace
}  // namespace outrider
