#include "common/model/memory/sequence_memory.h"

#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/model/memory/marked_memory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kChain = NodeTree::kChain;
constexpr SequenceLimits kLimits = {.length_max = 200, .node_count_max = 40, .row_count_max = 70};

// A sequence, and the tokens that are committed.
struct Text {
  explicit Text(MarkedMemory& marked) : memory(marked.New()) {}

  std::unique_ptr<SequenceMemory> memory;
  Tokens committed;
};

// What only knows keys: all cells, one group of pages.
class AttentionMemory : public testing::Test {
 protected:
  static constexpr uint32_t kPages = 8;

  AttentionMemory()
      : marked_(std::vector<LayerKeeps>{{.attention = AttentionCells{2, 8, 6, {}}},
                                        {.attention = AttentionCells{4, 8, 6, {}}}},
                kLimits, std::array{kPages}) {}

  uint32_t free() const { return marked_.memory->ledger().free_count(0); }

  // Reads so many tokens more.
  void Read(Text& text, uint32_t count) {
    OUTRIDER_CHECK_OK(text.memory->Reserve(count, 0));
    while (count > 0) {
      const uint32_t now = std::min(count, kLimits.row_count_max);
      marked_.batch.Clear();
      std::vector<Tokens> ways;
      Tokens tokens;
      for (uint32_t i = 0; i < now; ++i) {
        tokens.push_back(static_cast<TokenId>(text.committed.size() * 7 + salt_));
        text.committed.push_back(tokens.back());
        ways.push_back(text.committed);
      }
      marked_.batch.AddChain(*text.memory, tokens);
      marked_.Pass(ways);
      text.memory->Commit(now, {});
      count -= now;
    }
    ++salt_;
  }

  // That all of it can be seen: one row more, which is not committed.
  void ExpectWhole(Text& text) {
    OUTRIDER_CHECK_OK(text.memory->Reserve(1, 0));
    marked_.batch.Clear();
    marked_.batch.AddChain(*text.memory, std::array<TokenId, 1>{3});
    Tokens way = text.committed;
    way.push_back(3);
    marked_.Pass(std::array{way});
    text.memory->Truncate(text.memory->length());
  }

  MarkedMemory marked_;
  TokenId salt_ = 0;
};

TEST_F(AttentionMemory, PagesComeAndGoWithTheText) {
  Text text(marked_);
  EXPECT_EQ(free(), 8u);
  Read(text, 32);
  EXPECT_EQ(free(), 7u);
  Read(text, 1);
  EXPECT_EQ(free(), 6u);
  ExpectWhole(text);
  EXPECT_EQ(text.memory->Truncate(32), 32u);
  EXPECT_EQ(free(), 7u);
  OUTRIDER_CHECK_OK(text.memory->Reserve(1, 33));
  EXPECT_EQ(free(), 4u) << "promised";
  text.memory->DropNodes();
  EXPECT_EQ(free(), 6u);
  text.memory->Clear();
  EXPECT_EQ(free(), 8u);
}

TEST_F(AttentionMemory, ForksShareUntilTheyWrite) {
  Text first(marked_);
  Read(first, 40);
  Text second(marked_);
  OUTRIDER_CHECK_OK(second.memory->ForkFrom(*first.memory, first.memory->length()));
  second.committed = first.committed;
  EXPECT_EQ(free(), 6u) << "a fork takes nothing";
  EXPECT_EQ(second.memory->AtCell(0, 39).page, first.memory->AtCell(0, 39).page);
  Read(second, 1);
  EXPECT_EQ(free(), 5u) << "the tail it writes into";
  EXPECT_EQ(second.memory->AtCell(0, 0).page, first.memory->AtCell(0, 0).page);
  EXPECT_NE(second.memory->AtCell(0, 39).page, first.memory->AtCell(0, 39).page);
  Read(first, 5);
  EXPECT_EQ(free(), 5u) << "now it is the only holder";
  ExpectWhole(first);
  ExpectWhole(second);

  // Cut back into a shared page: what the other has there stays.
  second.memory->Truncate(10);
  second.committed.resize(10);
  Read(second, 3);
  ExpectWhole(first);
  ExpectWhole(second);
  first.memory->Clear();
  second.memory->Clear();
  EXPECT_EQ(free(), 8u);
}

// What was reserved stays reserved: the page that the first one is now to copy is promised to it.
TEST_F(AttentionMemory, AForkDoesNotEndAPromise) {
  Text first(marked_);
  Read(first, 40);
  OUTRIDER_CHECK_OK(first.memory->Reserve(1, 0));
  EXPECT_EQ(free(), 6u);
  Text second(marked_);
  OUTRIDER_CHECK_OK(second.memory->ForkFrom(*first.memory, first.memory->length()));
  EXPECT_EQ(free(), 5u);
  Text third(marked_);
  OUTRIDER_CHECK_OK(third.memory->Reserve(5 * kPageTokens, 0));
  EXPECT_EQ(free(), 0u);
  marked_.batch.Clear();
  marked_.batch.AddChain(*first.memory, std::array<TokenId, 1>{3});
  first.memory->Commit(1, {});
  EXPECT_NE(second.memory->AtCell(0, 39).page, first.memory->AtCell(0, 39).page);

  OUTRIDER_CHECK_OK(first.memory->Reserve(1, 0));
  Text fourth(marked_);
  EXPECT_EQ(fourth.memory->ForkFrom(*first.memory, first.memory->length()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fourth.memory->length(), 0u);
  marked_.batch.Clear();
  marked_.batch.AddChain(*first.memory, std::array<TokenId, 1>{3});
}

TEST_F(AttentionMemory, TooFewPagesChangeNothing) {
  Text first(marked_);
  Read(first, 6 * kPageTokens - 1);
  Text second(marked_);
  Read(second, 5);
  const absl::Status status = second.memory->Reserve(2 * kPageTokens, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("has 1 of 8 pages free and 3 are needed"));
  EXPECT_EQ(second.memory->length(), 5u);
  EXPECT_EQ(free(), 1u);
  ExpectWhole(first);
  ExpectWhole(second);
  EXPECT_TRUE(second.memory->Reserve(kPageTokens, 0).ok());
}

TEST_F(AttentionMemory, NodesOutliveARefusalAndMakeRoomForCells) {
  Text text(marked_);
  Read(text, 5 * kPageTokens);
  OUTRIDER_CHECK_OK(text.memory->Reserve(1, kPageTokens + 1));
  EXPECT_EQ(free(), 0u);
  marked_.batch.Clear();
  marked_.batch.AddNode(*text.memory, 5, kChain, kPageTokens);
  Tokens way = text.committed;
  way.push_back(5);
  marked_.Pass(std::array{way});
  EXPECT_FALSE(text.memory->Reserve(kPageTokens + 1, kPageTokens + 1).ok());
  EXPECT_EQ(free(), 0u) << "nobody else may write there";
  marked_.batch.Clear();
  marked_.batch.AddNode(*text.memory, 6, kPageTokens, 0);
  way.push_back(6);
  marked_.Pass(std::array{way});
  EXPECT_TRUE(text.memory->Reserve(kPageTokens + 1, 1).ok()) << "fewer nodes, more cells";
  EXPECT_FALSE(text.memory->nodes().Has(kPageTokens));
}

// Two sequences with a prefix in common take it once.
TEST_F(AttentionMemory, APrefixIsTakenOnce) {
  Text first(marked_);
  Read(first, 4 * kPageTokens);
  Text second(marked_);
  OUTRIDER_CHECK_OK(second.memory->ForkFrom(*first.memory, first.memory->length()));
  second.committed = first.committed;
  Read(first, 2 * kPageTokens);
  Read(second, 2 * kPageTokens);
  EXPECT_EQ(free(), 0u) << "4 + 2 + 2, where one by itself has 6";
  EXPECT_EQ(first.memory->AtCell(0, 0).page, second.memory->AtCell(0, 0).page);
  EXPECT_NE(first.memory->AtCell(0, 130).page, second.memory->AtCell(0, 130).page);
}

// --- windows ---

TEST(WindowedMemory, ALongTextRunsInAFewPages) {
  // 39 cells before a run of at most 8 rows: three pages; and one of nodes.
  const SequenceLimits limits = {.length_max = 2000, .node_count_max = 8, .row_count_max = 8};
  MarkedMemory marked(
      std::vector<LayerKeeps>{{.attention = AttentionCells{1, 4, 4, MarkedMemory::kWindow}}},
      limits, std::array{4u});
  Text text(marked);
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const uint32_t chain = 1 + static_cast<uint32_t>(random()) % 4;
    OUTRIDER_CHECK_OK(text.memory->Reserve(chain + 2, 4));
    marked.batch.Clear();
    Tokens tokens(chain);
    std::vector<Tokens> ways;
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random() % 1000);
      text.committed.push_back(token);
      ways.push_back(text.committed);
    }
    marked.batch.AddChain(*text.memory, tokens);
    for (uint32_t node = 0; node < 4; ++node) {  // chain - 0 - 2, chain - 1 - 3
      marked.batch.AddNode(*text.memory, static_cast<TokenId>(node), node < 2 ? kChain : node - 2,
                           node);
      ways.push_back(node < 2 ? text.committed : ways[ways.size() - 2]);
      ways.back().push_back(static_cast<TokenId>(node));
    }
    marked.Pass(ways);
    if (testing::Test::HasFatalFailure()) return;
    text.memory->Commit(chain, {{1, 3}});
    text.committed = ways.back();
    text.memory->DropNodes();
    EXPECT_LE(marked.memory->ledger().held_count(0), 3u);
  }
  EXPECT_GT(text.committed.size(), 10 * MarkedMemory::kWindow);
  EXPECT_EQ(text.memory->Truncate(text.memory->length()), text.memory->length());
  EXPECT_EQ(text.memory->Truncate(text.memory->length() - 60), 0u) << "it is to be read again";
  EXPECT_EQ(marked.memory->ledger().free_count(0), 4u);
}

// Reserved once, for many runs: pages that the window has passed are promised to it again, whoever
// else would like them.
TEST(WindowedMemory, WhatIsReservedForATextLastsToItsEnd) {
  const SequenceLimits limits = {.length_max = 2000, .node_count_max = 0, .row_count_max = 8};
  MarkedMemory marked(
      std::vector<LayerKeeps>{{.attention = AttentionCells{1, 4, 4, MarkedMemory::kWindow}}},
      limits, std::array{5u});
  Text text(marked);
  OUTRIDER_CHECK_OK(text.memory->Reserve(1000, 0));
  Text other(marked);
  EXPECT_TRUE(other.memory->Reserve(64, 0).ok());
  EXPECT_EQ(marked.memory->ledger().free_count(0), 0u);
  for (int round = 0; round < 125; ++round) {
    Tokens tokens(8, round);
    std::vector<Tokens> ways;
    for (const TokenId token : tokens) {
      text.committed.push_back(token);
      ways.push_back(text.committed);
    }
    marked.batch.Clear();
    marked.batch.AddChain(*text.memory, tokens);
    marked.Pass(ways);
    text.memory->Commit(8, {});
  }
  EXPECT_EQ(text.memory->length(), 1000u);
}

TEST(WindowedMemory, WhatAWindowStillSeesCanBeGoneBackTo) {
  const SequenceLimits limits = {.length_max = 200, .node_count_max = 0, .row_count_max = 200};
  MarkedMemory marked(
      std::vector<LayerKeeps>{{.attention = AttentionCells{1, 4, 4, MarkedMemory::kWindow}}},
      limits, std::array{10u});
  Text text(marked);
  Tokens tokens(90);
  OUTRIDER_CHECK_OK(text.memory->Reserve(90, 0));
  marked.batch.AddChain(*text.memory, tokens);
  text.memory->Commit(90, {});
  // Rows at 90 see cells from 51 on: those from 32 on are there, so rows from 71 on have theirs.
  EXPECT_EQ(text.memory->Truncate(71), 71u);
  EXPECT_EQ(text.memory->Truncate(70), 0u);
}

// --- an encoder's cells ---

TEST(EncoderMemory, CellsAreWrittenOnceAndShared) {
  const SequenceLimits limits = {.length_max = 100, .node_count_max = 4, .row_count_max = 8};
  const std::vector<LayerKeeps> layers = {
      {.attention = AttentionCells{1, 4, 4, {}}, .encoder = AttentionCells{2, 4, 4, {}}}};
  const std::unique_ptr<PageMemory> memory =
      *PageMemory::Create(MemoryLayout(layers, 80), std::array{8u, 5u}, 2);
  const Ledger& ledger = memory->ledger();
  SequenceMemory first(*memory, limits);
  OUTRIDER_CHECK_OK(first.ReserveEncoder(70));
  EXPECT_EQ(ledger.held_count(1), 3u);
  *first.AtEncoder(69).As<uint16_t>(memory->layout().encoder(0).values_at(1), 4) = 77;

  Batch batch = *Batch::Create(memory->layout(), limits);
  OUTRIDER_CHECK_OK(first.Reserve(1, 0));
  batch.AddChain(first, std::array<TokenId, 1>{1});
  first.Commit(1, {});
  SequenceMemory second(*memory, limits);
  OUTRIDER_CHECK_OK(second.ForkFrom(first, first.length()));
  EXPECT_EQ(ledger.held_count(1), 3u);
  EXPECT_EQ(first.Truncate(0), 0u);
  EXPECT_EQ(first.encoder_keys().size(), 3u) << "the encoder has nothing to do with cells";
  first.Clear();
  OUTRIDER_CHECK_OK(second.Reserve(1, 0));
  batch.Clear();
  const uint32_t row = batch.AddChain(second, std::array<TokenId, 1>{1});
  const std::span<const KeyRun> keys = batch.rows()[row].encoder_keys;
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[2].count, 6u);
  EXPECT_EQ(keys[2].page[memory->layout().encoder(0).values_at(1) + 5 * 4], 77);

  SequenceMemory third(*memory, limits);
  EXPECT_EQ(third.ReserveEncoder(80).code(), absl::StatusCode::kResourceExhausted);
  second.Clear();
  EXPECT_EQ(ledger.free_count(1), 5u);
}

// --- steady state ---

TEST(SequenceMemory, PassesTakeNothingFromTheHeap) {
  MarkedMemory marked(MarkedMemory::EveryKind(), kLimits, std::array{16u, 16u, 16u, 16u, 2u});
  const auto sequence = marked.New();
  const auto pass = [&] {
    OUTRIDER_CHECK_OK(sequence->Reserve(4, 10));
    marked.batch.Clear();
    marked.batch.AddChain(*sequence, std::array<TokenId, 2>{1, 2});
    for (uint32_t i = 0; i < 10; ++i) {
      marked.batch.AddNode(*sequence, 3, i < 2 ? kChain : i - 2, i);
    }
    marked.walks.Plan(marked.batch);
    sequence->Commit(2, {{0, 2}});
    if (sequence->length() % 3 == 0) sequence->DropNodes();
    if (sequence->length() > 150) sequence->Truncate(20);
  };
  for (int i = 0; i < 60; ++i) pass();
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 200; ++i) pass();
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace outrider
