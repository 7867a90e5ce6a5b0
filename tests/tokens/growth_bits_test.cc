#include "common/tokens/growth_bits.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

std::string BytesOf(const std::vector<GrownNode>& nodes) {
  std::string bytes;
  WriteGrowthBits(nodes, bytes);
  return bytes;
}

absl::Status ErrorOf(std::string_view bytes) {
  GrowthReader reader(bytes);
  for (uint32_t i = 0; i < reader.node_count(); ++i) {
    if (const auto node = reader.Next(); !node.ok()) return node.status();
  }
  return reader.End();
}

TEST(GrowthBits, AreReadAsTheyWereWritten) {
  std::mt19937_64 random(7);
  const auto number = [&](uint32_t bits) { return static_cast<uint32_t>(random() >> (64 - bits)); };
  for (int i = 0; i < 2000; ++i) {
    std::vector<GrownNode> nodes(1 + random() % 300);
    const uint32_t width = 1 + random() % 32;
    for (GrownNode& node : nodes) {
      node = {number(1 + random() % 32), number(1 + random() % 32), number(width)};
    }
    ASSERT_EQ(NodesOf(BytesOf(nodes)), nodes) << "round " << i;
  }
}

TEST(GrowthBits, HaveRoomForEveryNumber) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const std::vector<GrownNode> nodes = {{kMost, kMost, kMost}, {0, 0, 0}, {1, 15, kMost - 1}};
  EXPECT_EQ(NodesOf(BytesOf(nodes)), nodes);
}

TEST(GrowthBits, OfNothingAreNoBytes) {
  EXPECT_EQ(BytesOf({}), "");
  EXPECT_TRUE(NodesOf("").empty());
}

TEST(GrowthBits, StepsLeadFromParentToParent) {
  for (uint32_t id = 1; id < 12; ++id) {
    for (uint32_t parent = 0; parent < id; ++parent) {
      for (uint32_t next = 0; next < id; ++next) {
        const uint32_t step = StepBetween(parent, next, id);
        EXPECT_EQ(ParentAfter(parent, step, id), next) << parent << " to " << next << " of " << id;
      }
    }
  }
  EXPECT_EQ(StepBetween(0, 5, 7), 2u);
  EXPECT_EQ(StepBetween(5, 6, 7), 1u);
  EXPECT_EQ(StepBetween(5, 4, 7), 2u);
}

// What is no parent: the root, or the node itself, which a sketch refuses.
TEST(GrowthBits, NoStepLeadsPastTheNodeItself) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  EXPECT_EQ(ParentAfter(0, kMost, 9), 0u);
  EXPECT_EQ(ParentAfter(5, kMost - 1, 9), 0u);
  EXPECT_EQ(ParentAfter(5, kMost, 9), 9u);
  EXPECT_EQ(ParentAfter(kMost - 1, kMost, kMost), kMost);
}

// 0 0001: one node; 01000: width 9; 0 0: step 0; 0 0: doubt 0; 100000000: token 256.
TEST(GrowthBits, AreLaidOutAsTheHeaderSays) {
  EXPECT_EQ(BytesOf({{0, 0, 256}}), std::string("\x0a\x02\x00", 3));
}

// Of a draft of 4,096 tokens whose parents are up to six nodes apart, 20 bits a node.
TEST(GrowthBits, AreFew) {
  std::vector<GrownNode> nodes;
  for (uint32_t i = 0; i < 64; ++i) nodes.push_back({i % 12, i % 5, 4095 - i});
  EXPECT_LE(BytesOf(nodes).size(), 64 * 21 / 8);
}

TEST(GrowthBits, ThatEndTooSoonOrTooLateAreRefusedInASentence) {
  const std::string whole = BytesOf({{0, 1, 300}, {3, 0, 17}});
  EXPECT_TRUE(ErrorOf(whole).ok());
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(
        ErrorOf(whole.substr(0, size)).message(),
        "growth of 2 nodes has " + std::to_string(size) + " bytes, which end before its last node");
  }
  EXPECT_EQ(ErrorOf(whole + "x").message(), "growth of 2 nodes ends after " +
                                                std::to_string(whole.size()) + " of its " +
                                                std::to_string(whole.size() + 1) + " bytes");
  EXPECT_EQ(ErrorOf(std::string(300, '\xff')).message(),
            "growth of 300 bytes has no number of nodes");
}

TEST(GrowthBits, ThatAreNoUint32AreRefused) {
  // One node of width 1, whose step begins with 32 ones and more, which with k make 33 bits.
  const std::string bytes("\x08\x3f\xff\xff\xff\xff\xff\xff", 8);
  EXPECT_FALSE(ErrorOf(bytes).ok());
}

}  // namespace
}  // namespace outrider
