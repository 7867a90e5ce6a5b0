#include "common/model/kv_sequence.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

ModelSpec Shape() {
  ModelSpec spec;
  spec.layers = {{4, 2}, {4, 1}, {4, 4}};
  spec.key_length = 8;
  spec.value_length = 6;
  return spec;
}

constexpr uint32_t kPositionsMax = 200;
constexpr uint32_t kScratchMax = 40;

class KvSequenceTest : public testing::Test {
 protected:
  std::unique_ptr<KvSequence> New() {
    return std::make_unique<KvSequence>(*cache_, kPositionsMax, kScratchMax);
  }

  // All that a slot holds, over layers and heads.
  std::vector<uint16_t*> Halves(const KvSlot& at) {
    const KvPageLayout& layout = cache_->layout();
    std::vector<uint16_t*> halves;
    for (uint32_t layer = 0; layer < layout.layer_count(); ++layer) {
      for (uint32_t head = 0; head < layout.kv_head_count(layer); ++head) {
        for (uint32_t i = 0; i < layout.key_length(); ++i) {
          halves.push_back(at.page + layout.keys_at(layer, head) + at.slot * layout.key_length() +
                           i);
        }
        for (uint32_t i = 0; i < layout.value_length(); ++i) {
          halves.push_back(at.page + layout.values_at(layer, head) +
                           at.slot * layout.value_length() + i);
        }
      }
    }
    return halves;
  }
  void Write(const KvSlot& at, uint16_t value) {
    for (uint16_t* half : Halves(at)) *half = value++;
  }
  bool Holds(const KvSlot& at, uint16_t value) {
    return std::ranges::all_of(Halves(at), [&](const uint16_t* half) { return *half == value++; });
  }
  // Position p holds 1000 p + ...
  void Fill(KvSequence& sequence, uint32_t count) {
    OUTRIDER_CHECK_OK(sequence.Reserve(count, 0));
    for (uint32_t i = 0; i < count; ++i) {
      Write(sequence.AtPosition(sequence.length()), static_cast<uint16_t>(sequence.length() * 100));
      sequence.Advance(1);
    }
  }
  void ExpectFilled(const KvSequence& sequence, uint32_t count) {
    for (uint32_t p = 0; p < count; ++p) {
      EXPECT_TRUE(Holds(sequence.AtPosition(p), static_cast<uint16_t>(p * 100))) << p;
    }
  }

  std::unique_ptr<KvCache> cache_ = OrDie(KvCache::Create(Shape(), 8));
};

TEST_F(KvSequenceTest, SlotsOfAPageDoNotOverlap) {
  const auto sequence = New();
  OUTRIDER_CHECK_OK(sequence->Reserve(kChunk, 0));
  std::vector<uint16_t*> all;
  for (uint32_t p = 0; p < kChunk; ++p) {
    for (uint16_t* half : Halves(sequence->AtPosition(p))) all.push_back(half);
  }
  EXPECT_EQ(all.size(), cache_->layout().page_halves());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_EQ(all.back() - all.front() + 1, static_cast<ptrdiff_t>(all.size()));
}

TEST_F(KvSequenceTest, PagesComeAndGoWithTheText) {
  const auto sequence = New();
  EXPECT_EQ(cache_->free_page_count(), 8u);
  Fill(*sequence, 32);
  EXPECT_EQ(cache_->free_page_count(), 7u);
  Fill(*sequence, 1);
  EXPECT_EQ(cache_->free_page_count(), 6u);
  ExpectFilled(*sequence, 33);
  sequence->Truncate(32);
  EXPECT_EQ(cache_->free_page_count(), 7u);
  OUTRIDER_CHECK_OK(sequence->Reserve(1, 33));
  EXPECT_EQ(cache_->free_page_count(), 4u);
  sequence->DropScratch();
  EXPECT_EQ(cache_->free_page_count(), 6u);
  sequence->Clear();
  EXPECT_EQ(cache_->free_page_count(), 8u);
}

TEST_F(KvSequenceTest, AcceptedNodesAreCopiedIntoPlace) {
  const auto sequence = New();
  Fill(*sequence, 30);
  OUTRIDER_CHECK_OK(sequence->Reserve(4, 6));
  for (uint32_t i = 0; i < 6; ++i)
    Write(sequence->AtScratch(i), static_cast<uint16_t>(5000 + 200 * i));
  Write(sequence->AtPosition(30), 3000);
  sequence->Advance(1);
  for (const uint32_t node : {1, 3, 4}) sequence->CommitScratch(node);
  sequence->DropScratch();
  EXPECT_EQ(sequence->length(), 34u);
  ExpectFilled(*sequence, 31);
  EXPECT_TRUE(Holds(sequence->AtPosition(31), 5200));
  EXPECT_TRUE(Holds(sequence->AtPosition(32), 5600));
  EXPECT_TRUE(Holds(sequence->AtPosition(33), 5800));
}

TEST_F(KvSequenceTest, ForksShareUntilTheyWrite) {
  const auto first = New();
  Fill(*first, 40);
  const auto second = New();
  second->ForkFrom(*first);
  EXPECT_EQ(cache_->free_page_count(), 6u) << "a fork takes nothing";
  EXPECT_EQ(second->AtPosition(39).page, first->AtPosition(39).page);
  OUTRIDER_CHECK_OK(second->Reserve(1, 0));
  EXPECT_EQ(cache_->free_page_count(), 5u) << "the tail it writes into";
  EXPECT_EQ(second->AtPosition(0).page, first->AtPosition(0).page);
  EXPECT_NE(second->AtPosition(39).page, first->AtPosition(39).page);
  Write(second->AtPosition(40), 1);
  second->Advance(1);
  ExpectFilled(*second, 40);
  OUTRIDER_CHECK_OK(first->Reserve(1, 0));
  EXPECT_EQ(cache_->free_page_count(), 5u) << "now it is the only holder";
  Fill(*first, 5);
  ExpectFilled(*first, 45);
  EXPECT_TRUE(Holds(second->AtPosition(40), 1));

  // Cut back into a shared page: what the other has there stays.
  second->Truncate(10);
  Fill(*second, 3);
  Write(second->AtPosition(10), 9);
  ExpectFilled(*first, 45);
  first->Clear();
  second->Clear();
  EXPECT_EQ(cache_->free_page_count(), 8u);
}

TEST_F(KvSequenceTest, TooFewPagesChangeNothing) {
  const auto first = New();
  Fill(*first, 6 * kChunk - 1);
  const auto second = New();
  Fill(*second, 5);
  const absl::Status status = second->Reserve(2 * kChunk, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("has 1 of 8 pages free and 3 are needed"));
  EXPECT_EQ(second->length(), 5u);
  EXPECT_EQ(cache_->free_page_count(), 1u);
  ExpectFilled(*first, 6 * kChunk - 1);
  ExpectFilled(*second, 5);
  EXPECT_TRUE(second->Reserve(kChunk, 0).ok());
}

TEST_F(KvSequenceTest, DraftedNodesOutliveARefusalAndMakeRoomForTheNextOnes) {
  const auto sequence = New();
  Fill(*sequence, 5 * kChunk);
  OUTRIDER_CHECK_OK(sequence->Reserve(1, kChunk + 1));
  EXPECT_EQ(cache_->free_page_count(), 0u);
  Write(sequence->AtScratch(kChunk), 7000);
  const absl::Status status = sequence->Reserve(kChunk + 1, kChunk + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(cache_->free_page_count(), 0u) << "nobody else may write there";
  EXPECT_TRUE(Holds(sequence->AtScratch(kChunk), 7000));
  EXPECT_TRUE(sequence->Reserve(kChunk, kChunk + 1).ok());
  EXPECT_EQ(cache_->free_page_count(), 0u);
}

TEST_F(KvSequenceTest, DraftedNodesStayWhileTheTextGrows) {
  const auto sequence = New();
  Fill(*sequence, 30);
  OUTRIDER_CHECK_OK(sequence->Reserve(0, 40));
  for (uint32_t i = 0; i < 40; ++i) {
    Write(sequence->AtScratch(i), static_cast<uint16_t>(1000 + 100 * i));
  }
  OUTRIDER_CHECK_OK(sequence->Reserve(4, 40));
  EXPECT_EQ(cache_->free_page_count(), 4u);
  sequence->CommitScratch(35);
  sequence->CommitScratch(3);
  sequence->CommitScratch(38);
  ExpectFilled(*sequence, 30);
  EXPECT_TRUE(Holds(sequence->AtPosition(30), 4500));
  EXPECT_TRUE(Holds(sequence->AtPosition(31), 1300));
  EXPECT_TRUE(Holds(sequence->AtPosition(32), 4800));
  EXPECT_TRUE(Holds(sequence->AtScratch(39), 4900));
  OUTRIDER_CHECK_OK(sequence->Reserve(0, 5));
  EXPECT_EQ(cache_->free_page_count(), 5u) << "fewer nodes, fewer pages";
  EXPECT_TRUE(Holds(sequence->AtScratch(4), 1400));
}

// --- batches: what a row sees ---

TEST_F(KvSequenceTest, RowsSeeTheirOwnPathAndNothingElse) {
  const auto sequence = New();
  Fill(*sequence, 33);
  Batch batch = OrDie(Batch::Create(16, kPositionsMax, std::nullopt));
  OUTRIDER_CHECK_OK(sequence->Reserve(1, 4));
  const TokenId root_token = 5;
  const uint32_t root = batch.AddChain(*sequence, {&root_token, 1});
  //  root - 0 - 1 - 3
  //       \ 2
  batch.AddNodes(
      *sequence, root,
      std::vector<DraftedNode>{{6, DraftedNode::kRoot}, {7, 0}, {8, DraftedNode::kRoot}, {9, 1}});
  ASSERT_EQ(batch.row_count(), 5u);
  const auto runs = [&](uint32_t row) {
    std::vector<std::pair<const uint16_t*, std::pair<uint32_t, uint32_t>>> list;
    for (const KeyRun& run : batch.rows()[row].keys)
      list.push_back({run.page, {run.slot, run.count}});
    return list;
  };
  const uint16_t* const full = sequence->AtPosition(0).page;
  const uint16_t* const tail = sequence->AtPosition(32).page;
  const uint16_t* const scratch = sequence->AtScratch(0).page;
  using Runs = decltype(runs(0));
  EXPECT_EQ(runs(0), (Runs{{full, {0, 32}}, {tail, {0, 2}}}));
  EXPECT_EQ(runs(1), (Runs{{full, {0, 32}}, {tail, {0, 2}}, {scratch, {0, 1}}}));
  EXPECT_EQ(runs(2), (Runs{{full, {0, 32}}, {tail, {0, 2}}, {scratch, {0, 2}}}));
  EXPECT_EQ(runs(3), (Runs{{full, {0, 32}}, {tail, {0, 2}}, {scratch, {2, 1}}}));
  EXPECT_EQ(runs(4), (Runs{{full, {0, 32}}, {tail, {0, 2}}, {scratch, {0, 2}}, {scratch, {3, 1}}}));
  EXPECT_EQ(batch.rows()[4].position, 36u);
  EXPECT_EQ(batch.rows()[4].parent, 2u);
}

TEST_F(KvSequenceTest, AWindowCutsTheFrontOffAndRunsEndAtChunks) {
  const auto sequence = New();
  Fill(*sequence, 62);
  Batch batch = OrDie(Batch::Create(16, kPositionsMax, 3));
  OUTRIDER_CHECK_OK(sequence->Reserve(1, 5));
  const TokenId root_token = 5;
  const uint32_t root = batch.AddChain(*sequence, {&root_token, 1});
  std::vector<DraftedNode> chain = {{6, DraftedNode::kRoot}};
  for (uint32_t i = 1; i < 5; ++i) chain.push_back({6, i - 1});
  batch.AddNodes(*sequence, root, chain);
  const auto count_and_first = [&](uint32_t row) {
    std::vector<uint32_t> counts;
    for (const KeyRun& run : batch.rows()[row].keys) counts.push_back(run.count);
    counts.push_back(batch.rows()[row].first_position);
    return counts;
  };
  EXPECT_EQ(count_and_first(0), (std::vector<uint32_t>{3, 60}));
  EXPECT_EQ(count_and_first(1), (std::vector<uint32_t>{2, 1, 61}));
  EXPECT_EQ(count_and_first(2), (std::vector<uint32_t>{1, 1, 1, 62})) << "63 and 64: two chunks";
  EXPECT_EQ(count_and_first(3), (std::vector<uint32_t>{1, 2, 63}));
  EXPECT_EQ(count_and_first(4), (std::vector<uint32_t>{3, 64})) << "no run of the row before grows";
  EXPECT_EQ(count_and_first(5), (std::vector<uint32_t>{3, 65}));
}

// Slots in any order; a run is as long as slots follow one another within a chunk of positions.
TEST_F(KvSequenceTest, ANodeOfALaterBatchSeesItsPath) {
  const auto sequence = New();
  Fill(*sequence, 62);
  OUTRIDER_CHECK_OK(sequence->Reserve(1, 20));
  Batch batch = OrDie(Batch::Create(2, kPositionsMax, std::nullopt, 10));
  const TokenId token = 5;
  const uint32_t root = batch.AddChain(*sequence, {&token, 1});
  sequence->Advance(1);
  const uint32_t child = batch.AddNode(*sequence, {}, 9, 6);
  EXPECT_EQ(batch.rows()[child].parent, root);
  batch.Clear();
  const uint32_t node = batch.AddNode(*sequence, std::vector<uint32_t>{9, 3, 4, 7, 8}, 2, 6);
  const Batch::Row& row = batch.rows()[node];
  EXPECT_EQ(row.position, 68u);
  EXPECT_EQ(row.parent, Batch::kNoRow) << "that was in another batch";
  EXPECT_EQ(row.slot.slot, 2u);
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (const KeyRun& run : row.keys) runs.push_back({run.slot, run.count});
  // Positions 0-31, 32-62, then 63 | 64, 65 | 66, 67 | 68.
  EXPECT_EQ(runs, (decltype(runs){{0, 32}, {0, 31}, {9, 1}, {3, 2}, {7, 2}, {2, 1}}));
  const uint32_t below = batch.AddNode(*sequence, std::vector<uint32_t>{9, 3, 4, 7, 8, 2}, 0, 6);
  EXPECT_EQ(batch.rows()[below].parent, node);
}

}  // namespace
}  // namespace outrider
