#include "common/speculation/lm_drafter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/kernels/isa.h"
#include "common/model/cpu_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/model/engine.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using Context = Drafter::Context;
using Tokens = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int32_t kVocabulary = 512;
constexpr uint32_t kRoot = DraftedNode::kRoot;
constexpr TokenId kBos = 1;

SamplingOptions Sampled(double temperature, uint64_t seed = 3) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = seed;
  return options;
}

SamplingOptions Everything() {
  SamplingOptions options = Sampled(0.9, 4);
  options.top_k = 40;
  options.top_p = 0.95;
  options.min_p = 0.01;
  options.repetition_penalty = 1.1;
  options.frequency_penalty = 0.2;
  options.logit_bias = {{300, 2}};
  return options;
}

// A model's weights, which drafters share.
struct Weights {
  explicit Weights(const std::string& path)
      : model(OrDie(ModelFile::Open(path))),
        spec(OrDie(ModelSpec::From(*model, path))),
        store(OrDie(ResidentWeights::Load(*model, spec, path, *Pool(), nullptr))) {}

  static ThreadPool* Pool() {
    static ThreadPool* const pool = OrDie(ThreadPool::Create(2)).release();
    return pool;
  }

  std::unique_ptr<LmDrafter> Drafter(const SamplingOptions& sampling,
                                     const LmDrafterOptions& options = {}) const {
    return OrDie(LmDrafter::Create(spec, *store, OrDie(Chooser::Create(sampling, kVocabulary)),
                                   options, KernelsFor(BestIsa()), *Pool()));
  }

  std::unique_ptr<ModelFile> model;
  ModelSpec spec;
  std::unique_ptr<ResidentWeights> store;
};

const Weights& Good() {
  static const Weights* const weights = new Weights(Stories());
  return *weights;
}
const Weights& Damaged() {
  static const Weights* const weights = new Weights(DamagedStories());
  return *weights;
}

TokenHistory HistoryOf(const Tokens& tokens) {
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 600, .counts_tokens = true});
  OUTRIDER_CHECK_OK(history.Append(tokens));
  history.StartReply();
  return history;
}

Tokens TokensOf(std::span<const Proposal> list) {
  Tokens tokens;
  for (const Proposal& proposal : list) tokens.push_back(proposal.token);
  return tokens;
}

// The text of the model itself, with passes over what is drafted.
class Author {
 public:
  Author(const std::string& path, const SamplingOptions& sampling, const Tokens& prompt)
      : chooser_(OrDie(Chooser::Create(sampling, kVocabulary))),
        history_(HistoryOf(prompt)),
        target_(OrDie(CpuTarget::Load(*OrDie(ModelFile::Open(path)), path, {.node_count_max = 200},
                                      KernelsFor(BestIsa()), *Weights::Pool(), nullptr))),
        id_(OrDie(target_->CreateSequence())) {
    OUTRIDER_CHECK_OK(target_->Prefill(id_, prompt, nullptr));
  }

  // What it accepts is committed.
  Outcome Run(std::span<const DraftedNode> nodes) {
    const Pass pass = {id_, nodes, &chooser_, &history_};
    PassResult result;
    target_->Run({&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
    OUTRIDER_CHECK_OK(target_->Commit(id_, result.outcome));
    committed_.clear();
    for (uint32_t n = result.outcome.node; n != kRoot; n = nodes[n].parent) {
      committed_.insert(committed_.begin(), nodes[n].token);
    }
    committed_.push_back(result.outcome.next);
    OUTRIDER_CHECK_OK(history_.Append(committed_));
    return result.outcome;
  }

  const TokenHistory& history() const { return history_; }

 private:
  const Chooser chooser_;
  TokenHistory history_;
  std::unique_ptr<CpuTarget> target_;
  SequenceId id_;
  Tokens committed_;
};

// Grows a tree: every round the children of `width` nodes that have none join it.
class Tree {
 public:
  void Clear() {
    nodes_.clear();
    open_ = {kRoot};
  }
  std::span<const DraftedNode> nodes() const { return nodes_; }

  void Grow(LmDrafter& drafter, const TokenHistory& history, uint32_t width, uint32_t children) {
    contexts_.clear();
    for (; contexts_.size() < width && !open_.empty(); open_.erase(open_.begin())) {
      contexts_.push_back({open_.front(), children});
    }
    OUTRIDER_CHECK_OK(drafter.Propose(history, nodes_, contexts_, proposals_));
    for (size_t i = 0; i < contexts_.size(); ++i) {
      for (const Proposal& proposal : proposals_.children()[i]) {
        open_.push_back(static_cast<uint32_t>(nodes_.size()));
        nodes_.push_back({proposal.token, contexts_[i].node});
      }
    }
  }
  std::span<const Context> asked() const { return contexts_; }

  Tokens PathTo(uint32_t node) const {
    Tokens path;
    for (; node != kRoot; node = nodes_[node].parent) path.insert(path.begin(), nodes_[node].token);
    return path;
  }

 private:
  std::vector<DraftedNode> nodes_;
  std::vector<uint32_t> open_ = {kRoot};
  std::vector<Context> contexts_;
  Proposals proposals_;
};

// --- what it proposes ---

TEST(LmDrafter, WhatTheModelDraftsForItselfIsAllAccepted) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(1), Everything()}) {
    const auto drafter = Good().Drafter(sampling);
    Author author(Stories(), sampling, {kBos, 403, 407, 261});
    Tree chain;
    for (uint32_t round = 0; author.history().size() < 150; ++round) {
      const uint32_t length = round % 8;
      chain.Clear();
      for (uint32_t i = 0; i < length; ++i) chain.Grow(*drafter, author.history(), 1, 1);
      const Outcome outcome = author.Run(chain.nodes());
      ASSERT_EQ(outcome.node, length == 0 ? kRoot : length - 1);
    }
  }
}

// Trees over committed text that was itself drafted and accepted: all the candidates, in order, are
// those of a drafter that reads this text for the first time.
TEST(LmDrafter, ItsTrieIsAFreshReading) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Everything()}) {
    const auto drafter = Damaged().Drafter(sampling);
    Author author(Stories(), sampling, Tokens(40, 300));
    std::mt19937 random(1);
    Tree tree;
    Proposals ours, theirs;
    for (int round = 0; round < 30; ++round) {
      tree.Clear();
      for (int batch = 0; batch < 4; ++batch) {
        tree.Grow(*drafter, author.history(), 1 + random() % 4, 1 + random() % 3);
      }
      for (const uint32_t node : {kRoot, static_cast<uint32_t>(random() % tree.nodes().size())}) {
        const std::vector<Context> context = {{node, 32}};
        OUTRIDER_CHECK_OK(drafter->Propose(author.history(), tree.nodes(), context, ours));
        const auto fresh = Damaged().Drafter(sampling);
        TokenHistory text = author.history();
        OUTRIDER_CHECK_OK(text.Append(tree.PathTo(node)));
        OUTRIDER_CHECK_OK(fresh->Propose(text, {}, std::vector<Context>{{kRoot, 32}}, theirs));
        ASSERT_EQ(TokensOf(ours.children()[0]), TokensOf(theirs.children()[0])) << round;
        ASSERT_GE(ours.children()[0].size(), 1);
      }
      author.Run(tree.nodes());
    }
    EXPECT_GT(author.history().size(), 85) << "or the trie was never walked";
  }
}

TEST(LmDrafter, ComputesEveryPrefixOnce) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(0.8)}) {
    const auto drafter = Damaged().Drafter(sampling, {.row_count_max = 16});
    Author author(Stories(), sampling, Tokens(50, 301));
    std::set<Tokens> prefixes;
    std::mt19937 random(2);
    Tree tree;
    for (int round = 0; round < 40; ++round) {
      tree.Clear();
      const Tokens text(author.history().tokens().begin(), author.history().tokens().end());
      for (size_t length = 1; length <= text.size(); ++length) {
        prefixes.emplace(text.begin(), text.begin() + static_cast<ptrdiff_t>(length));
      }
      for (uint32_t batch = random() % 4; batch <= 5; ++batch) {
        tree.Grow(*drafter, author.history(), 1 + random() % 8, 1 + random() % 3);
        for (const Context& context : tree.asked()) {
          Tokens path = text;
          const Tokens below = tree.PathTo(context.node);
          path.insert(path.end(), below.begin(), below.end());
          prefixes.insert(path);
        }
        ASSERT_EQ(drafter->row_count(), prefixes.size());
      }
      author.Run(tree.nodes());
    }
  }
}

}  // namespace
}  // namespace outrider
