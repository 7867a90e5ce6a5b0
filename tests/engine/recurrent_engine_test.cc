// The engine's interface, driven over layers that keep what no model file has yet: one with a
// recurrent state and a convolution (delta_mixer.h), one with a window. In any script of runs over
// several sequences, trees that grow, commits, cuts, forks, evictions and re-reading, the logits of
// every row are bit for bit those of its own tokens, read alone.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/model/weights/resident_weights.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/delta_mixer.h"
#include "tests/model/memory/naive_sequence.h"
#include "tests/model/memory/script.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

constexpr uint32_t kChain = EngineNode::kChain;
constexpr uint32_t kNodes = 24;
constexpr uint32_t kRows = 48;
constexpr uint32_t kDepthMax = 6;
constexpr uint32_t kLengthMax = 60;

using Bits = std::vector<uint32_t>;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OUTRIDER_CHECK_OK(value.status());
  return *std::move(value);
}

// Two layers: the delta rule, then attention with a window of 24.
class HybridEngine {
 public:
  explicit HybridEngine(const EngineOptions& options) {
    const ScratchDir dir;
    const std::string path = dir.File("model.gguf");
    WriteRandomModel(SmallModel("mistral"), TensorType::kQ8_0, path);
    const std::unique_ptr<ModelFile> file = OrDie(ModelFile::Open(path));
    ModelSpec spec = OrDie(ModelSpec::From(*file, path));
    pool_ = OrDie(ThreadPool::Create(2));
    std::unique_ptr<ResidentWeights> weights =
        OrDie(ResidentWeights::Load(*file, spec, path, *pool_, nullptr));
    mixer_ = std::make_unique<DeltaMixer>(spec.embedding_length);
    spec.layers[0].mixer = GuestMixer{"delta rule", mixer_->Keeps(), mixer_.get()};
    engine_ = OrDie(
        CpuEngine::Create(spec, std::move(weights), 1, options, KernelsFor(BestIsa()), *pool_));
  }

  Engine& operator*() const { return *engine_; }
  Engine* operator->() const { return engine_.get(); }

  // The logits of all rows.
  std::vector<Bits> Run(std::span<const RunPart> parts) const {
    EngineRun run{.parts = parts};
    std::vector<std::vector<float>> out(run.row_count(),
                                        std::vector<float>(engine_->info().vocabulary_size));
    std::vector<LogitsOfRow> wanted;
    for (uint32_t row = 0; row < out.size(); ++row) wanted.push_back({row, out[row]});
    run.logits = wanted;
    OUTRIDER_CHECK_OK(engine_->Run(run));
    std::vector<Bits> bits(out.size());
    for (size_t row = 0; row < out.size(); ++row) {
      for (const float logit : out[row]) bits[row].push_back(std::bit_cast<uint32_t>(logit));
    }
    return bits;
  }

  // Reads tokens as one chain, and commits them.
  std::vector<Bits> Read(SequenceId sequence, std::span<const TokenId> tokens) const {
    const RunPart part = {.sequence = sequence, .chain = tokens};
    std::vector<Bits> rows = Run({&part, 1});
    engine_->Commit(sequence, static_cast<uint32_t>(tokens.size()), {});
    return rows;
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<DeltaMixer> mixer_;
  std::unique_ptr<CpuEngine> engine_;
};

// What tokens come to when nothing else is there.
class Alone {
 public:
  const Bits& After(const Tokens& way) {
    if (const auto found = rows_.find(way); found != rows_.end()) return found->second;
    const SequenceId sequence = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(engine_->Reserve(sequence, static_cast<uint32_t>(way.size()), 0));
    std::vector<Bits> rows = engine_.Read(sequence, way);
    engine_->Close(sequence);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows_[Tokens(way.begin(), way.begin() + static_cast<ptrdiff_t>(i) + 1)] = std::move(rows[i]);
    }
    return rows_.at(way);
  }

 private:
  const HybridEngine engine_{{.context_length = 160, .node_count_max = 1, .row_count_max = 160}};
  std::map<Tokens, Bits> rows_;
};

TEST(RecurrentEngine, AChainReadAtOnceIsTheChainReadTokenByToken) {
  const HybridEngine engine({.context_length = 160, .node_count_max = 1, .row_count_max = 64});
  Alone alone;
  std::mt19937 random(1);
  Tokens tokens(60);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
  const SequenceId sequence = OrDie(engine->Open());
  for (size_t i = 0; i < tokens.size(); ++i) {
    OUTRIDER_CHECK_OK(engine->Reserve(sequence, 1, 0));
    const std::vector<Bits> row = engine.Read(sequence, std::span(tokens).subspan(i, 1));
    ASSERT_TRUE(row[0] == alone.After(Tokens(tokens.begin(), tokens.begin() + ptrdiff_t(i) + 1)));
  }
}

struct Text : NaiveSequence {
  SequenceId id = {};
  bool is_open = false;
};

class Script {
 public:
  Script(uint32_t seed, const HybridEngine& engine, Alone& alone)
      : choices_(seed, {.token_count = 4, .slot_count = kNodes, .depth_max = kDepthMax}),
        engine_(engine),
        alone_(alone),
        texts_(4) {}

  void Step() {
    Text& text = texts_[Below(texts_.size())];
    switch (Below(14)) {
      case 0:
        return Evict(text);
      case 1:
      case 2:
        return Fork(text, texts_[Below(texts_.size())]);
      case 3:
        return TakeBack(text);
      case 4:
        if (!text.is_open) return;
        engine_->DropNodes(text.id);
        text.nodes.clear();
        return;
      default:
        return Run();
    }
  }

  void End() {
    for (Text& text : texts_) {
      if (text.is_open) engine_->Close(text.id);
    }
    const Ledger& ledger = engine_->ledger();
    for (uint32_t group = 0; group < ledger.group_count(); ++group) {
      EXPECT_EQ(ledger.free_count(group), ledger.group(group).page_count);
    }
  }

  const ScriptCounts& counts() const { return counts_; }

 private:
  uint32_t Below(size_t end) { return choices_.Below(end); }

  void Close(Text& text) {
    if (text.is_open) engine_->Close(text.id);
    text.is_open = false;
    text.Forget(0);
  }

  // Gives up its memory, and comes back with the tokens it had.
  void Evict(Text& text) {
    const Tokens tokens = text.committed;
    Close(text);
    if (Below(3) > 0) Reread(text, tokens);
  }

  void Reread(Text& text, const Tokens& tokens) {
    if (!text.is_open) text.id = OrDie(engine_->Open());
    text.is_open = true;
    const auto missing = static_cast<uint32_t>(tokens.size() - text.committed.size());
    if (!engine_->Reserve(text.id, missing, 0).ok()) {
      ++counts_.refusals;
      return;
    }
    while (text.committed.size() < tokens.size()) {
      const size_t begin = text.committed.size();
      const size_t count = std::min<size_t>(tokens.size() - begin, 1 + Below(kRows));
      const std::vector<Bits> rows = engine_.Read(text.id, std::span(tokens).subspan(begin, count));
      for (size_t i = 0; i < count; ++i) {
        text.committed.push_back(tokens[begin + i]);
        ASSERT_TRUE(rows[i] == alone_.After(text.committed));
      }
      counts_.rereads += static_cast<uint32_t>(count);
    }
    text.Forget(text.committed.size());
  }

  void Fork(Text& from, Text& to) {
    if (&from == &to || !from.is_open) return;
    Close(to);
    const auto length = static_cast<uint32_t>(from.committed.size());
    const bool is_part = length > 0 && Below(4) == 0;
    const absl::StatusOr<SequenceId> id = engine_->Fork(from.id, is_part ? Below(length) : length);
    if (!id.ok()) {
      ++counts_.refusals;
      return;
    }
    to.id = *id;
    to.is_open = true;
    if (!is_part) to.committed = to.chain = from.committed;
    ASSERT_EQ(engine_->Length(to.id), to.committed.size()) << "a state is there at the end alone";
    ++counts_.forks;
  }

  // Whatever is lost by it is read again.
  void TakeBack(Text& text) {
    if (!text.is_open) return;
    Tokens tokens = text.committed;
    tokens.resize(tokens.size() - std::min<size_t>(tokens.size(), Below(5)));
    const uint32_t left = engine_->Truncate(text.id, static_cast<uint32_t>(tokens.size()));
    ASSERT_EQ(left, tokens.size() < text.committed.size() ? 0 : tokens.size());
    text.Forget(left);
    Reread(text, tokens);
  }

  void Run() {
    parts_.clear();
    ways_.clear();
    std::vector<Part> running;
    running.reserve(texts_.size());
    uint32_t rows_left = kRows;
    for (Text& text : texts_) {
      if (Below(2) > 0) continue;
      Part part{&text, {}, {}};
      if (MakePart(part, rows_left)) running.push_back(std::move(part));
    }
    for (const Part& part : running) {
      parts_.push_back({.sequence = part.text->id, .chain = part.chain, .nodes = part.nodes});
    }
    if (parts_.empty()) return;
    const std::vector<Bits> rows = engine_.Run(parts_);
    ASSERT_EQ(rows.size(), ways_.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_TRUE(rows[row] == alone_.After(ways_[row])) << "row " << row;
    }
    counts_.rows += static_cast<uint32_t>(rows.size());
    for (const Part& part : running) {
      if (Below(4) > 0) Commit(*part.text);
    }
  }

  struct Part {
    Text* text;
    Tokens chain;
    std::vector<EngineNode> nodes;
  };

  bool MakePart(Part& part, uint32_t& rows_left) {
    Text& text = *part.text;
    if (text.committed.size() > kLengthMax) Close(text);
    if (!text.is_open) text.id = OrDie(engine_->Open());
    text.is_open = true;
    const size_t room = kLengthMax - text.committed.size();
    part.chain = choices_.SomeTokens(
        std::min(rows_left, Below(std::min<size_t>(room, Below(4) == 0 ? 30 : 2) + 1)));
    const auto cells =
        static_cast<uint32_t>(std::max<size_t>(part.chain.size(), text.chain_count()));
    if (!engine_->Reserve(text.id, cells + kDepthMax, kNodes).ok()) {
      ++counts_.refusals;
      return false;
    }
    if (!part.chain.empty()) {
      text.PlaceChain(part.chain);
      for (Tokens& way : text.ChainWays()) ways_.push_back(std::move(way));
    }
    rows_left -= static_cast<uint32_t>(part.chain.size());
    std::vector<uint32_t> written;
    const uint32_t node_count = text.chain.empty() ? 0 : std::min(rows_left, Below(10));
    for (uint32_t i = 0; i < node_count; ++i) {
      const std::optional<ScriptChoices::Node> node = choices_.PlaceNode(text, written);
      if (!node) continue;
      part.nodes.push_back({node->way.back(), node->parent, node->slot});
      ways_.push_back(node->way);
    }
    rows_left -= static_cast<uint32_t>(part.nodes.size());
    return !part.chain.empty() || !part.nodes.empty();
  }

  void Commit(Text& text) {
    const auto [chain_count, end] = choices_.AnyCommit(text);
    engine_->Commit(text.id, chain_count, text.At(end).slots);
    text.Commit(chain_count, end);
    if (end != kChain) ++counts_.paths;
    ASSERT_EQ(engine_->Length(text.id), text.committed.size());
  }

  ScriptChoices choices_;
  const HybridEngine& engine_;
  Alone& alone_;
  std::vector<Text> texts_;
  std::vector<RunPart> parts_;
  std::vector<Tokens> ways_;  // by row
  ScriptCounts counts_;
};

TEST(RecurrentEngine, EveryRowIsThatOfItsOwnChainInAnyScript) {
  const HybridEngine engine({.context_length = 120,
                             .sequence_count_max = 4,
                             .node_count_max = kNodes,
                             .row_count_max = kRows,
                             .kv_bytes = 450'000});
  Alone alone;
  const ScriptCounts all =
      RunScripts(4, 60, [&](uint32_t seed) { return Script(seed, engine, alone); });
  EXPECT_GT(all.rows, 800u);
  EXPECT_GT(all.refusals, 10u);
  EXPECT_GT(all.forks, 8u);
  EXPECT_GT(all.rereads, 100u);
  EXPECT_GT(all.paths, 30u);
}

}  // namespace
}  // namespace outrider
