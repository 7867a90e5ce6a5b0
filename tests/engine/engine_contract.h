// What the laws of every engine (engine.h) are held against: an engine over a small model, texts read
// in runs or alone, and trees to hang below them. Each program that has *_contract_test.cc says which
// engine it is about (contract_engine.h). Results are compared to the bit where the engine says that
// they may be, to rounding elsewhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/target_session.h"
#include "tests/model/random_model.h"

namespace outrider {

using Tokens = std::vector<TokenId>;
using Logits = std::vector<float>;

inline constexpr uint32_t kChain = EngineNode::kChain;

// Families whose rows find what they see in different ways: by rotation, within a window of 24
// cells, by learned positions. With weights in Q8_0, or in the type after an underscore:
// "llama_BF16".
class EngineContract : public testing::TestWithParam<const char*> {
 protected:
  EngineContract() {
    path_ = dir_.File("model.gguf");
    const std::string model = GetParam();
    WriteRandomModel(SmallModel(model.substr(0, model.find('_'))), TypeOf(model), path_);
    engine_ = Load({.sequence_count_max = 6});
  }

  static TensorType TypeOf(const std::string& model) {
    for (const TensorType type : {TensorType::kF16, TensorType::kBF16}) {
      if (model.ends_with(Concat("_", Info(type).name))) return type;
    }
    return TensorType::kQ8_0;
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
inline Bush MakeBush(uint32_t count, uint32_t seed) {
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

inline Tokens Joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

}  // namespace outrider
