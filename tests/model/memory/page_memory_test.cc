#include "common/model/memory/page_memory.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/memory/marked_memory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SequenceLimits kLimits = {.length_max = 640, .node_count_max = 32, .row_count_max = 64};

MemoryLayout OfWindows(const std::vector<std::optional<uint32_t>>& windows) {
  std::vector<LayerKeeps> layers;
  for (const std::optional<uint32_t>& window : windows) {
    layers.push_back({.attention = AttentionCells{2, 8, 8, window}});
  }
  return MemoryLayout(layers);
}

TEST(MemoryLayout, LayersOfTheSameSpanShareAGroup) {
  const MemoryLayout layout = OfWindows({{}, 40, {}, 40, 100});
  ASSERT_EQ(layout.group_count(), 3u);
  EXPECT_EQ(layout.attention(0).group, layout.attention(2).group);
  EXPECT_EQ(layout.attention(1).group, layout.attention(3).group);
  EXPECT_EQ(layout.page_bytes(0), 2 * 2 * (8 + 8) * sizeof(uint16_t) * kPageTokens);
  EXPECT_EQ(layout.page_bytes(2), layout.page_bytes(0) / 2);
}

// Every kind at once: no two pieces of a page overlap, and none begins within a cache line.
TEST(MemoryLayout, PiecesOfAPageLieSideBySide) {
  const MemoryLayout layout(MarkedMemory::EveryKind());
  ASSERT_EQ(layout.cell_group_count(), 4u) << "all, window, inputs, convolution";
  ASSERT_EQ(layout.group_count(), 5u) << "and bases";
  for (uint32_t group = 0; group < layout.cell_group_count(); ++group) {
    size_t end = 0;
    for (const MemoryLayout::Piece& piece : layout.pieces(group)) {
      EXPECT_EQ(piece.at, end);
      EXPECT_EQ(piece.at % kVectorAlignment, 0u);
      end = piece.at + kPageTokens * piece.bytes;
    }
    EXPECT_EQ(layout.page_bytes(group), end);
  }
  EXPECT_EQ(layout.attention(3).group, layout.attention(1).group) << "another layer's cells";
  EXPECT_EQ(layout.attention(3).keys_at(0), layout.attention(1).keys_at(0));
  EXPECT_EQ(layout.group(*layout.base_group()).pages_each, 1u);
}

TEST(DividePages, OneGroupGetsWhatThereIs) {
  const MemoryLayout layout = OfWindows({{}});
  const uint64_t page_bytes = layout.page_bytes(0);
  EXPECT_THAT(*DividePages(layout, kLimits, 3, 0), ElementsAre(3 * 21));
  EXPECT_THAT(*DividePages(layout, kLimits, 3, 50 * page_bytes - 1), ElementsAre(49));
  EXPECT_THAT(*DividePages(layout, kLimits, 3, 2 * page_bytes), ElementsAre(2));
  const absl::Status small = DividePages(layout, kLimits, 3, 2 * page_bytes - 1).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kInvalidArgument) << small;
  EXPECT_THAT(std::string(Message(small)),
              HasSubstr("too small; the least is " + std::to_string(2 * page_bytes)));
}

// A sequence at its longest has 20 pages of all cells and 1 of nodes; with a window of 33 cells and
// 64 rows 4 and 1.
TEST(DividePages, GroupsGetPagesAsSequencesNeedThem) {
  const MemoryLayout layout = OfWindows({{}, 33});
  const uint64_t page_bytes = layout.page_bytes(0);
  EXPECT_THAT(*DividePages(layout, kLimits, 2, 0), ElementsAre(42, 10));
  EXPECT_THAT(*DividePages(layout, kLimits, 2, 13 * page_bytes), ElementsAre(10, 2))
      << "a half would be 10.5 and 2.5";
  EXPECT_THAT(*DividePages(layout, kLimits, 2, 8 * page_bytes), ElementsAre(6, 2))
      << "the second would get 1";
}

TEST(DividePages, NobodyGetsLessThanTheLeastOrMoreThanThereIs) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random()) % end; };
    std::vector<LayerKeeps> layers = MarkedMemory::EveryKind();
    for (uint32_t i = below(4); i > 0; --i) {
      layers.push_back({.attention = AttentionCells{1 + below(3), 16, 16, 1 + below(300)}});
    }
    const MemoryLayout layout(layers);
    const SequenceLimits limits = {1 + below(3000), below(70), 1 + below(300)};
    uint64_t least = 0;
    for (uint32_t i = 0; i < layout.group_count(); ++i) {
      least += layout.page_bytes(i) *
               layout.group(i).PagesOfSequence(1, limits.row_count_max, limits.node_count_max);
    }
    EXPECT_FALSE(DividePages(layout, limits, 4, least - 1).ok());
    const uint64_t budget = least + below(10'000'000);
    const std::vector<uint32_t> pages = *DividePages(layout, limits, 4, budget);
    uint64_t bytes = 0;
    double share_max = 0;  // of those above their least, to within a page
    std::vector<double> shares;
    for (uint32_t i = 0; i < layout.group_count(); ++i) {
      const auto pages_of = [&](uint32_t length) {
        return layout.group(i).PagesOfSequence(length, limits.row_count_max, limits.node_count_max);
      };
      ASSERT_GE(pages[i], pages_of(1));
      bytes += pages[i] * layout.page_bytes(i);
      const auto full = static_cast<double>(pages_of(limits.length_max));
      if (pages[i] > pages_of(1)) share_max = std::max(share_max, pages[i] / full);
      shares.push_back((pages[i] + 1) / full);
    }
    EXPECT_LE(bytes, budget);
    for (const double share : shares) EXPECT_GE(share, share_max);
  }
}

}  // namespace
}  // namespace outrider
