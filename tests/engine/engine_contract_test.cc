// The laws of every engine (engine.h): what a row comes to is a function of the tokens on its way,
// however its sequence came to be.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_contract.h"

namespace outrider {
namespace {

INSTANTIATE_TEST_SUITE_P(Families, EngineContract, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

// --- rows ---

TEST_P(EngineContract, RowsOneAtATimeAreRowsTogether) {
  const Tokens text = RandomTokens(75, 1);
  const std::vector<Logits> together = ReadAlone(*engine_, text);
  for (const size_t chunk : {1, 7, 32}) {
    const SequenceId sequence = OrDie(engine_->Open());
    std::vector<Logits> pieces;
    for (size_t first = 0; first < text.size(); first += chunk) {
      const auto end = std::min(text.size(), first + chunk);
      for (Logits& logits :
           Read(*engine_, sequence, Tokens(text.begin() + first, text.begin() + end))) {
        pieces.push_back(std::move(logits));
      }
    }
    EXPECT_EQ(engine_->Length(sequence), 75u);
    ExpectSame(pieces, together, Concat("in chunks of ", chunk));
    engine_->Close(sequence);
  }
}

TEST_P(EngineContract, ATreeIsTheChainsDownToItsNodes) {
  const Tokens prompt = RandomTokens(38, 2);
  const Bush bush = MakeBush(20, 3);
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, Tokens(prompt.begin(), prompt.end() - 1));
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 1, 20));
  const Tokens root = {prompt.back()};
  const std::vector<Logits> rows =
      Run(*engine_, {{.sequence = sequence, .chain = root, .nodes = bush.nodes}});
  for (size_t i = 0; i < bush.nodes.size(); ++i) {
    const Tokens path = bush.PathTo(bush.nodes[i].slot);
    ExpectSame(rows[1 + i], ReadAlone(*engine_, Joined(prompt, path)).back(), Concat("node ", i));
  }
}

TEST_P(EngineContract, PromptsAndTreesInOneRunAreWhatTheyAreAlone) {
  const Tokens prompt = RandomTokens(70, 4);
  const Tokens others = RandomTokens(33, 5), third = RandomTokens(50, 6);
  const Bush bush = MakeBush(12, 7), grown = MakeBush(5, 8);
  const Tokens root = {42};
  // By sequence: what it has, and what it asks for.
  const auto run = [&](const std::vector<uint32_t>& which) {
    const SequenceId a = OrDie(engine_->Open()), b = OrDie(engine_->Open()),
                     c = OrDie(engine_->Open());
    Read(*engine_, b, others);
    Read(*engine_, c, third);
    OUTRIDER_CHECK_OK(engine_->Reserve(a, 70, 0));
    OUTRIDER_CHECK_OK(engine_->Reserve(b, 1, 12));
    OUTRIDER_CHECK_OK(engine_->Reserve(c, 0, 5));
    const RunPart parts[] = {{.sequence = a, .chain = prompt},
                             {.sequence = b, .chain = root, .nodes = bush.nodes},
                             {.sequence = c, .nodes = grown.nodes}};
    std::vector<RunPart> asked;
    for (const uint32_t i : which) asked.push_back(parts[i]);
    std::vector<Logits> rows = Run(*engine_, asked);
    for (const SequenceId sequence : {a, b, c}) engine_->Close(sequence);
    return rows;
  };
  std::vector<Logits> alone;
  for (const uint32_t i : {1u, 0u, 2u}) {
    for (Logits& logits : run({i})) alone.push_back(std::move(logits));
  }
  ExpectSame(run({1, 0, 2}), alone, "together");
}

// --- nodes ---

TEST_P(EngineContract, ATreeGrowsFromRunToRunAndIsCommitted) {
  const Tokens prompt = RandomTokens(30, 9);
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, prompt);
  Tokens text = prompt;
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 8, 16));
  const auto expect_node = [&](const EngineNode& node, const Tokens& path) {
    const std::vector<EngineNode> nodes = {node};
    ExpectSame(Run(*engine_, {{.sequence = sequence, .nodes = nodes}})[0],
               ReadAlone(*engine_, Joined(text, path)).back(),
               Concat("slot ", node.slot, " of ", text.size()));
  };
  expect_node({11, kChain, 4}, {11});
  expect_node({12, 4, 0}, {11, 12});
  expect_node({13, kChain, 2}, {13});
  expect_node({14, 0, 7}, {11, 12, 14});
  expect_node({15, 2, 9}, {13, 15});
  // The way to slot 0 is committed: what hung below it hangs below the chain, the rest is gone.
  engine_->Commit(sequence, 0, std::vector<uint32_t>{4, 0});
  text = Joined(text, {11, 12});
  EXPECT_EQ(engine_->Length(sequence), 32u);
  expect_node({16, 7, 3}, {14, 16});
  expect_node({17, kChain, 2}, {17});
  expect_node({18, 2, 4}, {17, 18});
  engine_->Commit(sequence, 0, std::vector<uint32_t>{7, 3});
  text = Joined(text, {14, 16});
  ExpectSame(Read(*engine_, sequence, {19})[0], ReadAlone(*engine_, Joined(text, {19})).back(),
             "what follows");
}

TEST_P(EngineContract, AChainIsOverwrittenUntilItIsCommitted) {
  const Tokens prompt = RandomTokens(31, 10);
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, prompt);
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 5, 8));
  const Tokens wrong = {1, 2, 3}, right = {4, 5};
  const std::vector<EngineNode> below = {{6, kChain, 0}};
  Run(*engine_, {{.sequence = sequence, .chain = wrong, .nodes = below}});
  EXPECT_EQ(engine_->Length(sequence), 31u);
  const std::vector<Logits> rows =
      Run(*engine_, {{.sequence = sequence, .chain = right, .nodes = below}});
  ExpectSame(rows[2], ReadAlone(*engine_, Joined(prompt, {4, 5, 6})).back(), "below the second");
  engine_->Commit(sequence, 1, {});  // less than was computed
  EXPECT_EQ(engine_->Length(sequence), 32u);
  ExpectSame(Read(*engine_, sequence, {7})[0], ReadAlone(*engine_, Joined(prompt, {4, 7})).back(),
             "after the first of them");
}

TEST_P(EngineContract, ChainAndPathAreCommittedTogether) {
  const Tokens prompt = RandomTokens(40, 11);
  const SequenceId sequence = OrDie(engine_->Open());
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 42, 8));
  const std::vector<EngineNode> nodes = {{1, kChain, 5}, {2, kChain, 6}, {3, 6, 1}, {4, 1, 2}};
  Run(*engine_, {{.sequence = sequence, .chain = prompt, .nodes = nodes}});
  engine_->Commit(sequence, 40, std::vector<uint32_t>{6, 1});
  engine_->DropNodes(sequence);
  EXPECT_EQ(engine_->Length(sequence), 42u);
  ExpectSame(Read(*engine_, sequence, {9})[0],
             ReadAlone(*engine_, Joined(prompt, {2, 3, 9})).back(), "what follows");
}

// --- sequences ---

TEST_P(EngineContract, AForkAndItsOriginDoNotDisturbEachOther) {
  const Tokens prompt = RandomTokens(45, 12);
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, prompt);
  const SequenceId fork = OrDie(engine_->Fork(sequence, 45));
  EXPECT_EQ(engine_->Length(fork), 45u);
  Read(*engine_, sequence, {1, 2, 3});
  Read(*engine_, fork, {4, 5});
  ExpectSame(Read(*engine_, sequence, {9})[0],
             ReadAlone(*engine_, Joined(prompt, {1, 2, 3, 9})).back(), "the origin");
  ExpectSame(Read(*engine_, fork, {9})[0], ReadAlone(*engine_, Joined(prompt, {4, 5, 9})).back(),
             "the fork");
  engine_->Close(sequence);
  ExpectSame(Read(*engine_, fork, {8})[0], ReadAlone(*engine_, Joined(prompt, {4, 5, 9, 8})).back(),
             "the fork alone");
}

TEST_P(EngineContract, WhatIsTruncatedIsAsIfItHadNeverBeen) {
  const Tokens prompt = RandomTokens(64, 13);
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, prompt);
  for (const uint32_t length : {50u, 33u, 32u, 1u, 0u}) {
    const uint32_t left = engine_->Truncate(sequence, length);
    EXPECT_LE(left, length);
    EXPECT_EQ(engine_->Length(sequence), left);
    const Tokens kept(prompt.begin(), prompt.begin() + length);
    Tokens rest(kept.begin() + left, kept.end());
    rest.push_back(77);
    ExpectSame(Read(*engine_, sequence, rest).back(),
               ReadAlone(*engine_, Joined(kept, {77})).back(), Concat("cut to ", length));
    engine_->Truncate(sequence, std::min(length, engine_->Length(sequence)));
  }
}

TEST_P(EngineContract, ThereAreAsManySequencesAsWereAskedFor) {
  const auto engine = Load({.sequence_count_max = 2});
  const SequenceId first = OrDie(engine->Open());
  const SequenceId second = OrDie(engine->Open());
  ExpectRefusal(engine->Open().status(), absl::StatusCode::kResourceExhausted,
                "all 2 sequences are in use");
  ExpectRefusal(engine->Fork(first, 0).status(), absl::StatusCode::kResourceExhausted, "in use");
  engine->Close(second);
  EXPECT_NE(OrDie(engine->Open()), second) << "an id is never given twice";
}

TEST_P(EngineContract, WhoFindsNoRoomIsToldAndNothingHasChanged) {
  const absl::Status small =
      MakeContractEngine(path_, {.node_count_max = 32, .kv_bytes = 1}, *pool_).status();
  ExpectRefusal(small, absl::StatusCode::kInvalidArgument, "is too small; the least is ");
  // The least is a page for cells and one for nodes; this is eight.
  const std::string sentence(Message(small));
  const uint64_t least = std::stoull(sentence.substr(sentence.rfind(' ')));
  const auto engine = Load({.sequence_count_max = 8, .node_count_max = 32, .kv_bytes = 4 * least});
  const SequenceId first = OrDie(engine->Open());
  const Tokens prompt = RandomTokens(64, 14);
  Read(*engine, first, prompt);
  OUTRIDER_CHECK_OK(engine->Reserve(first, 1, 0));
  absl::Status status;  // of others, which take what there is
  for (int i = 0; i < 7 && status.ok(); ++i) {
    status = engine->Reserve(OrDie(engine->Open()), 60, 8);
  }
  ExpectRefusal(status, absl::StatusCode::kResourceExhausted, "pages free");
  const Tokens next = {5};
  ExpectSame(Read(*engine, first, next)[0], ReadAlone(*engine_, Joined(prompt, next)).back(),
             "after a refusal");
}

TEST_P(EngineContract, OptionsThatCannotWorkAreRefused) {
  const auto refuse = [&](const EngineOptions& options, const std::string& part) {
    ExpectRefusal(MakeContractEngine(path_, options, *pool_).status(),
                  absl::StatusCode::kInvalidArgument, part);
  };
  refuse({.context_length = 161}, "a context of 161 tokens is more than the 160");
  refuse({.sequence_count_max = 0}, "1 to 65536 sequences, not 0");
  refuse({.row_count_max = 0}, "runs no row");
}

}  // namespace
}  // namespace outrider
