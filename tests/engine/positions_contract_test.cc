// The laws of every engine (engine.h) on rows that are no plain text: embeddings in place of tokens, and
// positions that are not indexes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/formats/models/model_file.h"
#include "common/formats/tensors/dequantize.h"
#include "tests/engine/engine_contract.h"

namespace outrider {
namespace {

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

class Embeddings : public EngineContract {};

INSTANTIATE_TEST_SUITE_P(Families, Embeddings, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(Embeddings, ATokensOwnEmbeddingIsTheToken) {
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

}  // namespace
}  // namespace outrider
