// A target with exits on a random model of four layers, the sequences that are passed over there,
// and what exits say of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/cpu_target.h"
#include "common/kernels/isa.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {

inline Hyperparameters FourLayers(const std::string& family) {
  Hyperparameters model = SmallModel(family);
  model.block_count = 4;
  model.head_count.assign(4, model.head_count[0]);
  model.head_count_kv.assign(4, model.head_count_kv[0]);
  return model;
}

// Layers from `first` on add nothing to the residual stream.
inline void SilenceLayers(const std::string& path, uint32_t first) {
  const auto model = OrDie(ModelFile::Open(path));
  std::string bytes = Contents(path);
  for (const ModelTensor& tensor : model->tensors()) {
    for (uint32_t layer = first; layer < 4; ++layer) {
      for (const char* const output : {"attn_output.", "ffn_down."}) {
        if (!tensor.name.starts_with(Concat("blk.", layer, ".", output))) continue;
        std::memset(bytes.data() + tensor.place->offset, 0, tensor.bytes);
      }
    }
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

// By temperature alone, unlike target_session.h's Sampled().
inline SamplingOptions Drawn(uint64_t seed) {
  SamplingOptions options;
  options.temperature = 0.9;
  options.seed = seed;
  return options;
}

inline SamplingOptions Penalised(uint64_t seed) {
  SamplingOptions options = Drawn(seed);
  options.top_p = 0.95;
  options.repetition_penalty = 1.2;
  options.presence_penalty = 0.4;
  options.logit_bias = {{7, 0.5f}};
  return options;
}

// Of tokens from a few, so that whoever chooses among those few goes down it.
inline std::vector<DraftedNode> BushyTree(uint32_t seed, uint32_t count) {
  std::mt19937 random(seed);
  std::vector<DraftedNode> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t above = random() % (i / 2 + 1);
    const DraftedNode node = {static_cast<TokenId>(10 * (random() % 5) + 4),
                              above == 0 ? DraftedNode::kRoot : above - 1};
    const bool taken = std::ranges::any_of(nodes, [&](const DraftedNode& other) {
      return other.parent == node.parent && other.token == node.token;
    });
    if (!taken || i == 0) nodes.push_back(node);
    if (taken) --i, --count;
  }
  return nodes;
}

// One sequence, with what a guessed pass over it needs.
struct GuessedSession {
  GuessedSession(Target& target, const SamplingOptions& sampling,
                 const std::vector<TokenId>& prompt)
      : chooser(OrDie(Chooser::Create(sampling, kVocabulary))),
        history({.vocabulary_size = kVocabulary, .capacity = 256, .counts_tokens = true}),
        id(OrDie(target.CreateSequence())) {
    OUTRIDER_CHECK_OK(target.Prefill(id, prompt, nullptr));
    OUTRIDER_CHECK_OK(history.Append(prompt));
  }
  Pass Over(std::span<const DraftedNode> nodes, std::span<const TokenId> candidates = {}) const {
    return {id, nodes, &chooser, &history, candidates};
  }

  Chooser chooser;
  TokenHistory history;
  SequenceId id;
};

class ExitHeadsTest : public testing::Test {
 protected:
  void Write(const std::string& family, TensorType type, uint32_t silent_from = 4) {
    WriteRandomModel(FourLayers(family), type, path_);
    SilenceLayers(path_, silent_from);
    target_ = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, {.sequence_count_max = 8},
                                  KernelsFor(BestIsa()), *pool_, nullptr));
  }

  TrainedExits Exits(float strength, const std::vector<uint32_t>& layers = {0, 1, 2}) const {
    return RandomExits(target_->engine().spec(), target_->engine().info().content_hash, layers, 16,
                       strength);
  }

  // Guesses go to guesses_.
  void Attach(const TrainedExits& exits, ExitScope scope = ExitScope::kCandidates) {
    OUTRIDER_CHECK_OK(target_->AttachExits(exits, "exits", {.scope = scope}));
    target_->HearExits(&keeper_);
  }

  std::vector<PassResult> Run(const std::vector<Pass>& passes) {
    guesses_.clear();
    std::vector<PassResult> results(passes.size());
    target_->Run({}, passes, results);
    return results;
  }

  ScratchDir dir_;
  std::string path_ = dir_.File("model.gguf");
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<EngineTarget> target_;
  GuessKeeper keeper_;
  std::vector<ExitGuess>& guesses_ = keeper_.guesses();
};

}  // namespace outrider
