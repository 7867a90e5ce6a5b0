// A sketch has all of its memory from the beginning.
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "common/tokens/sketch.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/tokens/sketch_growth.h"

namespace outrider {
namespace {

using Path = std::vector<TokenId>;

constexpr NodeId kRoot = Sketch::kRoot;

TEST(Sketch, AllocatesNothingOnceMade) {
  constexpr uint32_t kNodes = 24;
  Sketch sketch(kNodes);
  Sketch::Taken taken;
  Path path, committed;
  taken.ids.reserve(kNodes);
  taken.nodes.reserve(kNodes);
  path.reserve(kNodes);
  committed.reserve(kNodes + 1);
  std::mt19937 random(3);
  const uint64_t before = AllocationCount();
  uint32_t seen = 0;
  for (int round = 0; round < 2000; ++round) {
    for (uint32_t i = random() % 8; i > 0 && sketch.nodes().size() < kNodes; --i) {
      const std::span<const Sketch::Node> nodes = sketch.nodes();
      const size_t at = random() % (nodes.size() + 1);
      const NodeId parent = at < nodes.size() ? nodes[at].id : kRoot;
      const auto token = static_cast<TokenId>(random() % 3);
      if (sketch.Child(parent, token) == nullptr)
        Grow(sketch, sketch.last_id() + 1, parent, token, seen);
    }
    sketch.Take(12, taken);
    const uint32_t leaf = taken.ids.empty() ? DraftedNode::kRoot : random() % taken.ids.size();
    sketch.PathTo(taken.IdOf(leaf), path);
    if (random() % 8 == 0 && !taken.ids.empty()) sketch.Prune(taken.ids.back());
    committed.clear();
    sketch.Commit(sketch.Find(taken.IdOf(leaf)) != nullptr ? taken.IdOf(leaf) : kRoot,
                  static_cast<TokenId>(random() % 3), committed);
    if (round % 3 != 0) seen = sketch.commit_count();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(sketch.commit_count(), 2000);
}

// The longest commit, and every token of it under three ids.
TEST(Sketch, AllocatesNothingForSecondIds) {
  constexpr uint32_t kNodes = 20;
  constexpr TokenId kOn = 13;
  Sketch sketch(kNodes);
  Path committed;
  committed.reserve(kNodes + 1);
  const uint64_t before = AllocationCount();
  for (uint32_t round = 0; round < 3; ++round) {
    for (NodeId id = 1; id <= 3 * kNodes; id += 3) {
      const NodeId parent = id == 1 ? kRoot : 3 * kNodes * round + id - 1;
      for (uint32_t i = 0; i < 3; ++i) Grow(sketch, sketch.last_id() + 1, parent, kOn, round);
    }
    committed.clear();
    sketch.Commit(sketch.last_id(), kOn, committed);
    EXPECT_EQ(sketch.way_length(), kNodes + 1);
  }
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace outrider
