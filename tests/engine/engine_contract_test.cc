// The laws of every engine (engine.h): what a row comes to is a function of the tokens on its way.
// Each program that has this file says which engine it is about (contract_engine.h). Results are
// compared to the bit where the engine says that they may be, to rounding elsewhere.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/models/model_file.h"
#include "common/formats/tensors/dequantize.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using Tokens = std::vector<TokenId>;
using Logits = std::vector<float>;

constexpr uint32_t kChain = EngineNode::kChain;

// Families whose rows find what they see in different ways: by rotation, within a window of 24
// cells, by learned positions.
class EngineContract : public testing::TestWithParam<const char*> {
 protected:
  EngineContract() {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(GetParam()), TensorType::kQ8_0, path_);
    engine_ = Load({.sequence_count_max = 6});
  }

  std::unique_ptr<Engine> Load(const EngineOptions& options) {
    return OrDie(MakeContractEngine(path_, options, *pool_));
  }

  // One run, and the logits of all its rows.
  std::vector<Logits> Run(Engine& engine, const std::vector<RunPart>& parts) {
    EngineRun run = {.parts = parts};
    const size_t vocabulary_size = engine.info().vocabulary_size;
    std::vector<Logits> logits(run.row_count(), Logits(vocabulary_size));
    std::vector<LogitsOfRow> asked;
    for (uint32_t row = 0; row < logits.size(); ++row) asked.push_back({row, logits[row]});
    run.logits = asked;
    OUTRIDER_CHECK_OK(engine.Run(run));
    return logits;
  }

  // Tokens join the sequence; the logits after each.
  std::vector<Logits> Read(Engine& engine, SequenceId sequence, const Tokens& tokens) {
    OUTRIDER_CHECK_OK(engine.Reserve(sequence, static_cast<uint32_t>(tokens.size()), 0));
    std::vector<Logits> logits = Run(engine, {{.sequence = sequence, .chain = tokens}});
    engine.Commit(sequence, static_cast<uint32_t>(tokens.size()), {});
    return logits;
  }

  // After each token of a text that is read from its beginning, alone.
  std::vector<Logits> ReadAlone(Engine& engine, const Tokens& tokens) {
    const SequenceId sequence = OrDie(engine.Open());
    std::vector<Logits> logits = Read(engine, sequence, tokens);
    engine.Close(sequence);
    return logits;
  }

  void ExpectSame(const Logits& actual, const Logits& expected, const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size());
    if (engine_->info().batch_invariant) {
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)), 0)
          << what;
      return;
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(std::abs(actual[i] - expected[i]) <= 1e-3f) << what << ", token " << i;
    }
  }
  void ExpectSame(const std::vector<Logits>& actual, const std::vector<Logits>& expected,
                  const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ExpectSame(actual[i], expected[i], Concat(what, ", row ", i));
    }
  }

  ScratchDir dir_;
  std::string path_;
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Families, EngineContract, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

// A tree below a chain, as an engine and as a reader of its paths has it.
struct Bush {
  std::vector<EngineNode> nodes;

  Tokens PathTo(uint32_t slot) const {
    Tokens path;
    while (slot != kChain) {
      const auto node = std::ranges::find(nodes, slot, &EngineNode::slot);
      path.insert(path.begin(), node->token);
      slot = node->parent;
    }
    return path;
  }
};

// Slots in no order.
Bush MakeBush(uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> slots(count);
  for (uint32_t i = 0; i < count; ++i) slots[i] = i;
  std::ranges::shuffle(slots, random);
  Bush bush;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t above = random() % (i + 1);
    bush.nodes.push_back({static_cast<TokenId>(random() % kVocabulary),
                          above == 0 ? kChain : slots[above - 1], slots[i]});
  }
  return bush;
}

Tokens Joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

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

// --- rows that are no plain text ---

// The rows of the table of embeddings, as the file has them.
std::vector<std::vector<float>> EmbeddingTable(const std::string& path) {
  const std::unique_ptr<ModelFile> file = OrDie(ModelFile::Open(path));
  const ModelTensor& table = *file->Find("token_embd.weight");
  std::vector<std::vector<float>> rows(table.row_count(), std::vector<float>(table.dims[0]));
  std::vector<std::byte> stored(table.bytes / rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    OUTRIDER_CHECK_OK(file->ReadRows(table, row, 1, stored));
    OUTRIDER_CHECK_OK(Dequantize(table.type, stored, rows[row]));
  }
  return rows;
}

// A text of which a part has been read: a chain follows it, and a bush below that.
struct BushyText {
  const Tokens read = RandomTokens(37, 20);
  const Tokens chain = RandomTokens(9, 21);
  const Bush bush = MakeBush(16, 22);

  std::vector<uint32_t> IndexesOfRows() const {
    std::vector<uint32_t> indexes;
    for (uint32_t i = 0; i < chain.size(); ++i) indexes.push_back(37 + i);
    for (const EngineNode& node : bush.nodes) {
      indexes.push_back(45 + static_cast<uint32_t>(bush.PathTo(node.slot).size()));
    }
    return indexes;
  }
};

TEST_P(EngineContract, ATokensOwnEmbeddingIsTheToken) {
  const std::vector<std::vector<float>> table = EmbeddingTable(path_);
  const BushyText text;
  const auto run = [&](bool with_embeddings) {
    Tokens chain = text.chain;
    std::vector<EngineNode> nodes = text.bush.nodes;
    std::vector<const float*> embeddings(chain.size() + nodes.size());
    for (size_t row = 0; with_embeddings && row < embeddings.size(); ++row) {
      if (row % 3 == 1) continue;
      TokenId& token = row < chain.size() ? chain[row] : nodes[row - chain.size()].token;
      embeddings[row] = table[static_cast<size_t>(token)].data();
      token = -1;  // not looked at
    }
    const SequenceId sequence = OrDie(engine_->Open());
    Read(*engine_, sequence, text.read);
    OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 9, 16));
    std::vector<Logits> rows =
        Run(*engine_,
            {{.sequence = sequence, .chain = chain, .nodes = nodes, .embeddings = embeddings}});
    engine_->Close(sequence);
    return rows;
  };
  ExpectSame(run(true), run(false), "embeddings");
}

class Positions : public EngineContract {
 protected:
  // What the rows of a text come to where they stand at these positions.
  std::vector<Logits> RunAt(const BushyText& text, const std::vector<uint32_t>& read_at,
                            const std::vector<uint32_t>& rows_at) {
    const auto all = [](const std::vector<uint32_t>& times) {
      std::vector<RotaryPosition> positions;
      for (const uint32_t time : times) positions.push_back({{time, 3, 4}});
      return positions;
    };
    const std::vector<RotaryPosition> before = all(read_at), here = all(rows_at);
    const SequenceId sequence = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(
        engine_->Reserve(sequence, static_cast<uint32_t>(37 + text.chain.size()), 16));
    Run(*engine_, {{.sequence = sequence, .chain = text.read, .positions = before}});
    engine_->Commit(sequence, 37, {});
    std::vector<Logits> rows = Run(
        *engine_,
        {{.sequence = sequence, .chain = text.chain, .nodes = text.bush.nodes, .positions = here}});
    engine_->Close(sequence);
    return rows;
  }

  static std::vector<uint32_t> Indexes(uint32_t end) {
    std::vector<uint32_t> indexes(end);
    for (uint32_t i = 0; i < end; ++i) indexes[i] = i;
    return indexes;
  }
  static std::vector<uint32_t> Shifted(std::vector<uint32_t> positions, uint32_t by) {
    for (uint32_t& position : positions) position += by;
    return positions;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, Positions, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(Positions, AreIndexesInPlainText) {
  const BushyText text;
  const SequenceId sequence = OrDie(engine_->Open());
  Read(*engine_, sequence, text.read);
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 9, 16));
  const std::vector<Logits> plain =
      Run(*engine_, {{.sequence = sequence, .chain = text.chain, .nodes = text.bush.nodes}});
  ExpectSame(RunAt(text, Indexes(37), text.IndexesOfRows()), plain, "at their indexes");
}

// Wherever a row of a tree stands, it is what a chain of the same rows at the same places comes to.
TEST_P(Positions, OfATreeAreThoseOfItsChains) {
  const BushyText text;
  std::mt19937 random(23);
  std::vector<uint32_t> read_at(37), rows_at(25);
  for (uint32_t& position : read_at) position = random() % 160;
  for (uint32_t& position : rows_at) position = random() % 160;
  const std::vector<Logits> tree = RunAt(text, read_at, rows_at);
  for (size_t i = 0; i < text.bush.nodes.size(); ++i) {
    Tokens chain = text.chain;
    std::vector<uint32_t> chain_at(rows_at.begin(), rows_at.begin() + 9);
    const auto descend = [&](auto&& self, uint32_t slot) -> void {
      if (slot == kChain) return;
      const auto node = std::ranges::find(text.bush.nodes, slot, &EngineNode::slot);
      self(self, node->parent);
      chain.push_back(node->token);
      chain_at.push_back(rows_at[static_cast<size_t>(9 + node - text.bush.nodes.begin())]);
    };
    descend(descend, text.bush.nodes[i].slot);
    const BushyText alone = {.read = text.read, .chain = chain, .bush = {}};
    ExpectSame(tree[9 + i], RunAt(alone, read_at, chain_at).back(), Concat("node ", i));
  }
}

// Rope turns queries and keys against one another: what counts is how far rows stand apart. An engine
// may keep keys as halves: 2^-11 of each, and so of a score of about five, is 0.0025 of a weight, and
// of what two layers add to logits of up to four.
TEST_P(Positions, ThatAreAllShiftedChangeNothingWhereRopeTurns) {
  WriteRandomModel(SmallModel(GetParam()), TensorType::kF32, path_);
  engine_ = Load({});
  const BushyText text;
  const std::vector<Logits> plain = RunAt(text, Indexes(37), text.IndexesOfRows());
  const std::vector<Logits> shifted =
      RunAt(text, Shifted(Indexes(37), 50), Shifted(text.IndexesOfRows(), 50));
  const std::vector<Logits> parted = RunAt(text, Indexes(37), Shifted(text.IndexesOfRows(), 50));
  const auto distance = [](const Logits& a, const Logits& b) {
    float most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  for (size_t row = 0; row < plain.size(); ++row) {
    EXPECT_TRUE(distance(parted[row], plain[row]) > 0.5f) << row;
    if (engine_->spec().learned_positions) continue;
    EXPECT_TRUE(distance(shifted[row], plain[row]) <= 0.01f) << row;
  }
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

// --- what is asked ---

TEST_P(EngineContract, HiddenStatesDoNotDependOnCompany) {
  const uint32_t embedding = engine_->spec().embedding_length;
  const Tokens text = RandomTokens(40, 15), other = RandomTokens(20, 16);
  const auto states = [&](bool beside) {
    const SequenceId a = OrDie(engine_->Open()), b = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(engine_->Reserve(a, 40, 0));
    OUTRIDER_CHECK_OK(engine_->Reserve(b, 20, 0));
    std::vector<RunPart> parts = {{.sequence = a, .chain = text}};
    if (beside) parts.push_back({.sequence = b, .chain = other});
    EngineRun run = {.parts = parts};
    std::vector<float> first(run.row_count() * embedding), last(first.size());
    const HiddenAfterLayer asked[] = {{0, first}, {engine_->spec().layer_count() - 1, last}};
    run.hidden = asked;
    OUTRIDER_CHECK_OK(engine_->Run(run));
    engine_->Close(a);
    engine_->Close(b);
    first.resize(text.size() * embedding);
    last.resize(text.size() * embedding);
    return std::pair(first, last);
  };
  const auto alone = states(false), together = states(true);
  ExpectSame(together.first, alone.first, "after the first layer");
  ExpectSame(together.second, alone.second, "after the last");
  EXPECT_NE(alone.first, alone.second);
}

// Choices are those of the logits, in whatever vocabulary, and however many rows are asked about.
TEST_P(EngineContract, WalksAndRankingsAreTheChoosersOnTheLogits) {
  const Tokens prompt = RandomTokens(30, 17);
  constexpr uint32_t kWalks = 4;
  for (const int32_t vocabulary_size : {190, 200, 210}) {
    const Chooser chooser = OrDie(Chooser::Create(Sampled(3), vocabulary_size));
    TokenHistory history(
        {.vocabulary_size = vocabulary_size, .capacity = 64, .counts_tokens = true});
    Tokens known = prompt;
    for (TokenId& token : known) token %= 190;
    OUTRIDER_CHECK_OK(history.Append(known));
    std::vector<SequenceId> sequences;
    std::vector<RunPart> parts;
    std::vector<std::vector<DraftedNode>> drafts;
    std::vector<std::vector<EngineNode>> nodes(kWalks);
    const Tokens root = {known.back()};
    for (uint32_t i = 0; i < kWalks; ++i) {
      const SequenceId sequence = sequences.emplace_back(OrDie(engine_->Open()));
      Read(*engine_, sequence, Tokens(known.begin(), known.end() - 1));
      OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 1, 25));
      std::vector<DraftedNode>& draft = drafts.emplace_back();
      for (uint32_t n = 0; n < 25; ++n) {
        draft.push_back(
            {static_cast<TokenId>(n * 7 % 190), n < 9 ? DraftedNode::kRoot : n / 9 - 1});
        nodes[i].push_back({draft[n].token, n < 9 ? kChain : n / 9 - 1, n});
      }
      parts.push_back({.sequence = sequence, .chain = root, .nodes = nodes[i]});
    }
    const std::vector<Logits> logits = Run(*engine_, parts);  // 104 rows
    std::vector<TreeWalk> walks;
    std::vector<Ranking> rankings;
    std::vector<std::vector<Ranked>> ranked(kWalks);
    for (uint32_t i = 0; i < kWalks; ++i) {
      walks.push_back(
          {.root_row = 26 * i, .nodes = drafts[i], .chooser = &chooser, .history = &history});
      rankings.push_back({.row = 26 * i,
                          .chooser = &chooser,
                          .history = &history,
                          .ancestors = {},
                          .count = 5,
                          .ranked = &ranked[i]});
    }
    EngineRun run = {.parts = parts, .walks = walks, .rankings = rankings};
    OUTRIDER_CHECK_OK(engine_->Run(run));
    for (uint32_t i = 0; i < kWalks; ++i) {
      ASSERT_TRUE(walks[i].status.ok() && rankings[i].status.ok()) << walks[i].status;
      Logits known_logits = logits[26 * i];
      known_logits.resize(static_cast<size_t>(vocabulary_size),
                          -std::numeric_limits<float>::infinity());
      ChooserScratch scratch(vocabulary_size);
      const TokenId first = OrDie(chooser.Choose(known_logits, 30, {history, {}}, scratch));
      EXPECT_EQ(ranked[i].front().token, first);
      EXPECT_EQ(ranked[i].size(), 5u);
      const bool drafted = std::ranges::any_of(drafts[i], [&](const DraftedNode& node) {
        return node.parent == DraftedNode::kRoot && node.token == first;
      });
      EXPECT_EQ(walks[i].outcome.node != DraftedNode::kRoot, drafted);
      if (!drafted) {
        EXPECT_EQ(walks[i].outcome.next, first);
      }
      engine_->Close(sequences[i]);
    }
  }
}

// --- exits ---

TEST_P(EngineContract, ExitsGuessOfWalksAndChangeNothing) {
  const TrainedExits exits =
      RandomExits(engine_->spec(), engine_->info().content_hash, {0}, 16, 0.2f);
  const Tokens prompt = RandomTokens(50, 18), other = RandomTokens(20, 19);
  const std::vector<DraftedNode> draft = {{4, DraftedNode::kRoot}, {5, 0}, {6, DraftedNode::kRoot}};
  const std::vector<EngineNode> nodes = {{4, kChain, 0}, {5, 0, 1}, {6, kChain, 2}};
  const Chooser chooser = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 64});
  OUTRIDER_CHECK_OK(history.Append(other));
  // A prompt before the walk and one after it.
  const auto run = [&] {
    const SequenceId a = OrDie(engine_->Open()), b = OrDie(engine_->Open()),
                     c = OrDie(engine_->Open());
    for (const SequenceId prompted : {a, c}) OUTRIDER_CHECK_OK(engine_->Reserve(prompted, 50, 0));
    OUTRIDER_CHECK_OK(engine_->Reserve(b, 22, 3));
    const RunPart parts[] = {{.sequence = a, .chain = prompt},
                             {.sequence = b, .chain = other, .nodes = nodes},
                             {.sequence = c, .chain = prompt}};
    TreeWalk walk = {.root_row = 69, .nodes = draft, .chooser = &chooser, .history = &history};
    std::vector<Logits> logits(2, Logits(kVocabulary));
    const LogitsOfRow asked[] = {{10, logits[0]}, {70, logits[1]}};
    EngineRun engine_run = {.parts = parts, .walks = {&walk, 1}, .logits = asked};
    OUTRIDER_CHECK_OK(engine_->Run(engine_run));
    OUTRIDER_CHECK_OK(walk.status);
    for (const SequenceId sequence : {a, b, c}) engine_->Close(sequence);
    logits.push_back(
        {static_cast<float>(walk.outcome.node), static_cast<float>(walk.outcome.next)});
    return logits;
  };
  const std::vector<Logits> without = run();
  GuessKeeper keeper;
  OUTRIDER_CHECK_OK(engine_->AttachExits(exits, "exits", {}, keeper));
  const std::vector<Logits> with = run();
  ASSERT_EQ(keeper.guesses().size(), 1u);
  EXPECT_EQ(keeper.guesses()[0].walk, 0u);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i], without[i]);
  Read(*engine_, OrDie(engine_->Open()), prompt);  // a run without walks
  EXPECT_EQ(keeper.guesses().size(), 1u);
  engine_->SwitchExit(0, false);
  run();
  EXPECT_EQ(keeper.guesses().size(), 1u);
  engine_->SwitchExit(0, true);
  engine_->DetachExits();
  run();
  EXPECT_EQ(keeper.guesses().size(), 1u);
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
