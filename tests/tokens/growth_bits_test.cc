#include "common/tokens/growth_bits.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
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
  ToldTokens told;
  WriteGrowthBits(nodes, told, bytes);
  return bytes;
}

absl::Status ErrorOf(std::string_view bytes) {
  GrowthReader reader(bytes);
  ToldTokens told;
  for (uint32_t i = 0; i < reader.node_count(); ++i) {
    if (const auto node = reader.Next(told); !node.ok()) return node.status();
  }
  return reader.End();
}

// One after the other, in epochs of ten.
TEST(GrowthBits, AreReadAsTheyWereWritten) {
  std::mt19937_64 random(7);
  const auto number = [&](uint32_t bits) { return static_cast<uint32_t>(random() >> (64 - bits)); };
  ToldTokens writer;
  ToldTokens reader;
  std::string bytes;
  for (int i = 0; i < 2000; ++i) {
    std::vector<GrownNode> nodes(1 + random() % 300);
    const uint32_t width = 1 + random() % 32;
    if (i % 10 == 0) {
      writer.Clear();
      reader.Clear();
    }
    for (GrownNode& node : nodes) {
      node = {number(1 + random() % 32), number(1 + random() % 32), number(width)};
    }
    WriteGrowthBits(nodes, writer, bytes);
    ASSERT_EQ(NodesOf(bytes, reader), nodes) << "round " << i;
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

// 0 0010: two nodes; 01000: width 9; 0 0: step 0; 0 0: doubt 0; 0 100000000: token 256;
// 0 1: step 1; 0 0: doubt 0; 1 0 0000: the newest.
TEST(GrowthBits, AreLaidOutAsTheHeaderSays) {
  EXPECT_EQ(BytesOf({{0, 0, 256}, {1, 0, 256}}), std::string("\x12\x01\x00\x48\x00", 5));
}

// Parents up to six nodes apart, of a draft of 4,096 tokens: 21 bits for a node whose token is new, 19
// where it is one of the last fifty.
TEST(GrowthBits, AreFew) {
  std::vector<GrownNode> nodes;
  for (uint32_t i = 0; i < 50; ++i) nodes.push_back({i % 12, i % 5, 4095 - i});
  std::string bytes;
  ToldTokens told;
  WriteGrowthBits(nodes, told, bytes);
  EXPECT_LE(bytes.size(), 50 * 21 / 8 + 2);
  WriteGrowthBits(nodes, told, bytes);
  EXPECT_LE(bytes.size(), 50 * 19 / 8 + 2);
}

TEST(ToldTokens, HaveTheirPlaceByWhenTheyWereTold) {
  std::mt19937_64 random(3);
  ToldTokens told;
  std::vector<uint32_t> expected;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 1000 == 0) {
      told.Clear();
      expected.clear();
    }
    // Some often, and more different ones than there are places.
    const auto token = static_cast<uint32_t>(random() % (i % 3 == 0 ? 1000 : 20));
    const auto at = std::ranges::find(expected, token);
    const std::optional<uint32_t> place = told.PlaceOf(token);
    ASSERT_EQ(place.has_value(), at != expected.end());
    if (place) {
      ASSERT_EQ(*place, static_cast<uint32_t>(at - expected.begin()));
      expected.erase(at);
    }
    expected.insert(expected.begin(), token);
    expected.resize(std::min<size_t>(expected.size(), ToldTokens::kCountMax));
    told.Tell(token);
    ASSERT_EQ(told.At(static_cast<uint32_t>(expected.size())), std::nullopt);
    ASSERT_EQ(told.At(static_cast<uint32_t>(expected.size()) - 1), expected.back());
  }
  EXPECT_EQ(told.At(std::numeric_limits<uint32_t>::max()), std::nullopt);
}

// What a token is told by depends on those told since it was told last, so who forgets is understood
// all the same.
TEST(ToldTokens, MayBeForgottenByWhoWrites) {
  ToldTokens reader;
  const std::vector<GrownNode> first = {{0, 0, 7}, {1, 0, 8}, {1, 0, 7}};
  const std::vector<GrownNode> second = {{0, 0, 8}, {1, 0, 8}, {1, 0, 9}};
  EXPECT_EQ(NodesOf(BytesOf(first), reader), first);
  EXPECT_EQ(NodesOf(BytesOf(second), reader), second);
}

// By its number then, for which there has to be room.
TEST(ToldTokens, MayBePushedOutByThoseOfTheSameGrowth) {
  std::vector<GrownNode> nodes = {{0, 0, 4095}};
  for (uint32_t i = 1; i < ToldTokens::kCountMax; ++i) nodes.push_back({0, 0, i});
  for (const uint32_t more : {0U, 1U}) {  // the last place, and none
    ToldTokens writer;
    ToldTokens reader;
    std::string bytes;
    WriteGrowthBits(nodes, writer, bytes);
    EXPECT_EQ(NodesOf(bytes, reader), nodes);
    std::vector<GrownNode> next(more, {0, 0, 300});
    next.push_back({0, 0, 4095});
    WriteGrowthBits(next, writer, bytes);
    EXPECT_EQ(NodesOf(bytes, reader), next);
  }
}

TEST(ToldTokens, ThatWereNeverToldAreRefusedInASentence) {
  ToldTokens told;
  told.Tell(300);
  std::string bytes;
  WriteGrowthBits(std::vector<GrownNode>{{0, 1, 300}}, told, bytes);
  EXPECT_EQ(
      ErrorOf(bytes).message(),
      "growth names a token by its place 0 among those told of late, and there are not so many");
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
