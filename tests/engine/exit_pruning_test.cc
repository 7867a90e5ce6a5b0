// Which rows of a run exits take out of it.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/engine/exit_heads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/exit_heads.h"

namespace outrider {
namespace {

// What pruning goes by: p of exit_guess.h, by the row of the node itself, among all tokens that are
// scored, for the chooser with the path down to the node behind it. The head here has a column for
// each token, so that a state's logits are known.
class PrunedWalks : public ExitHeadsTest {
 protected:
  using Logits = std::map<TokenId, float>;  // of those that are not here: 0

  static constexpr uint32_t kEmbedding = 256;
  static constexpr TokenId kA = 20, kB = 21, kC = 22, kD = 23, kE = 24, kShadow = 30;
  static constexpr float kThreshold = TreePruning::Options{}.threshold;

  PrunedWalks() {
    Write("llama", TensorType::kF32);
    const auto model = OrDie(ModelFile::Open(path_));
    std::string bytes = Contents(path_);
    const auto fill = [&](const char* name, const std::vector<float>& values) {
      std::memcpy(bytes.data() + model->Find(name)->place->offset, values.data(),
                  values.size() * sizeof(float));
    };
    std::vector<float> columns(size_t{kVocabulary} * kEmbedding);
    for (size_t token = 0; token < kVocabulary; ++token) columns[token * kEmbedding + token] = 1;
    fill("output.weight", columns);
    fill("output_norm.weight", std::vector<float>(kEmbedding, 1));
    model_ = std::make_unique<LoadedModel>(dir_.Write("columns.gguf", bytes));
    CreateHeads({});
  }

  void CreateHeads(const std::vector<TokenId>& frequent) {
    TrainedExits exits = Exits(0, {1});
    exits.frequent_tokens = frequent;
    heads_ = OrDie(ExitHeads::Create(exits, "exits",
                                     {.spec = model_->spec,
                                      .info = target_->engine().info(),
                                      .head = &model_->weights->head(),
                                      .kernels = KernelsFor(BestIsa()),
                                      .pool = *pool_},
                                     {.pruning = {.node_count_min = 1}}, keeper_));
  }

  TreeWalk Walk(const Chooser& chooser, const std::vector<DraftedNode>& nodes,
                Pruning pruning = Pruning::kOn) const {
    return {.root_row = 0,
            .nodes = nodes,
            .chooser = &chooser,
            .history = &history_,
            .pruning = pruning,
            .outcome = {DraftedNode::kRoot, 0}};
  }

  // Rows that are taken out of a run, of which these are all. The norm makes nothing of a state
  // whose mean square is 1.
  std::vector<uint32_t> Gone(std::vector<TreeWalk>& walks, const std::vector<Logits>& rows) {
    std::vector<float> states;
    std::vector<uint32_t> numbers;
    for (const Logits& logits : rows) {
      std::vector<float> state(kEmbedding);
      float left = kEmbedding;
      for (const auto& [token, logit] : logits) {
        state[static_cast<size_t>(token)] = logit;
        left -= logit * logit;
      }
      state.back() = std::sqrt(left);
      states.insert(states.end(), state.begin(), state.end());
      numbers.push_back(static_cast<uint32_t>(numbers.size()));
    }
    const auto dropped = std::make_unique<bool[]>(rows.size());
    LayerView view(numbers, states.data(), kEmbedding, kEmbedding, {dropped.get(), rows.size()});
    heads_->BeginRun(walks);
    heads_->AfterLayer(1, view);
    heads_->Conclude(walks);
    std::erase_if(numbers, [&](uint32_t row) { return !dropped[row]; });
    return numbers;
  }
  std::vector<uint32_t> Gone(const TreeWalk& walk, const std::vector<Logits>& rows) {
    std::vector<TreeWalk> walks = {walk};
    return Gone(walks, rows);
  }

  // e^score over its sum, of tokens A to D after such a path.
  std::map<TokenId, double> Parts(const Chooser& chooser, Logits logits,
                                  const std::vector<TokenId>& path) const {
    const std::vector<TokenId> tokens = {kA, kB, kC, kD};
    std::vector<float> values;
    for (const TokenId token : tokens) values.push_back(logits[token]);
    ChooserScratch scratch(kVocabulary);
    std::vector<Ranked> ranked;
    const auto position = static_cast<uint32_t>(history_.size() + path.size());
    OUTRIDER_CHECK_OK(chooser.RankAmong(tokens, values, position, {history_, path}, tokens.size(),
                                        scratch, ranked));
    double sum = 0;
    for (const Ranked& one : ranked) sum += std::exp(double{one.score});
    std::map<TokenId, double> parts;
    for (const Ranked& one : ranked) parts[one.token] = std::exp(double{one.score}) / sum;
    return parts;
  }

  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<ExitHeads> heads_;
  const Chooser greedy_ = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history_{{.vocabulary_size = kVocabulary, .capacity = 8, .counts_tokens = true}};
};

// Below B there is C alone: e^2 of e^2 + 2 without a shadow, and next to nothing of e^7 with one.
TEST_F(PrunedWalks, AnOnlyChildIsComparedWithTheShadowsBesideIt) {
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}};
  const std::vector<Logits> rows = {{{kA, 6}, {kB, 5}}, {}, {{kC, 2}, {kShadow, 7}}, {}};
  TreeWalk walk = Walk(greedy_, nodes);
  EXPECT_THAT(Gone(walk, rows), testing::IsEmpty());
  const std::vector<TokenId> beside = {kShadow};
  walk.candidates = beside;
  EXPECT_THAT(Gone(walk, rows), testing::ElementsAre(3));
  walk.candidates = {};
  CreateHeads({kShadow});
  EXPECT_THAT(Gone(walk, rows), testing::ElementsAre(3));
}

// Of D and E, below C, the row of C speaks against E; all others speak against D.
TEST_F(PrunedWalks, ChildrenGoByTheRowOfTheirParent) {
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}, {kD, 2}, {kE, 2}};
  const Logits other = {{kE, 6}, {kD, -5}};
  const std::vector<Logits> rows = {{{kA, 6}, {kB, 5}, {kE, 5}, {kD, -5}},
                                    other,
                                    {{kC, 5}, {kE, 5}, {kD, -5}},
                                    {{kD, 6}, {kE, 1}},
                                    other,
                                    other};
  EXPECT_THAT(Gone(Walk(greedy_, nodes), rows), testing::ElementsAre(5));
}

// What has been said on the way down, B and C, is penalised, and nothing else is.
TEST_F(PrunedWalks, ThePathToANodeIsItsHistory) {
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}, {kB, 2}, {kA, 2}, {kC, 2}};
  const std::vector<Logits> rows = {
      {{kA, 6}, {kB, 5}}, {}, {{kC, 6}}, {{kA, 4}, {kB, 4}, {kC, 4}}, {}, {}, {}};
  EXPECT_THAT(Gone(Walk(greedy_, nodes), rows), testing::IsEmpty());
  SamplingOptions options;
  options.presence_penalty = 2;
  options.frequency_penalty = 2;
  const Chooser penalising = OrDie(Chooser::Create(options, kVocabulary));
  EXPECT_THAT(Gone(Walk(penalising, nodes), rows), testing::ElementsAre(4, 6));
}

// A is the backbone wherever its part is the larger one; C and D go by their own parts, each with
// the noise of the position after B.
TEST_F(PrunedWalks, SampledChancesHaveTheNoiseOfTheirPosition) {
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}, {kD, 1}};
  const std::vector<Logits> rows = {{{kA, 5}, {kB, 5}}, {}, {{kC, 2}, {kD, 2}, {kA, 3}}, {}, {}};
  uint32_t gone_count = 0, stay_count = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Chooser chooser = OrDie(Chooser::Create(Drawn(seed), kVocabulary));
    std::map<TokenId, double> at_root = Parts(chooser, rows[0], {});
    if (at_root[kA] < at_root[kB] * 1.01 || at_root[kB] < kThreshold * 1.01) continue;
    std::map<TokenId, double> below = Parts(chooser, rows[2], {kB});
    std::vector<uint32_t> expected;
    bool is_close = false;
    for (const auto& [token, row] : {std::pair(kC, 3u), std::pair(kD, 4u)}) {
      if (below[token] < kThreshold) expected.push_back(row);
      is_close = is_close || std::abs(below[token] / double{kThreshold} - 1) < 0.01;
    }
    if (is_close) continue;
    EXPECT_THAT(Gone(Walk(chooser, nodes), rows), testing::ElementsAreArray(expected));
    gone_count += static_cast<uint32_t>(expected.size());
    stay_count += static_cast<uint32_t>(2 - expected.size());
  }
  EXPECT_GT(gone_count, 20u);
  EXPECT_GT(stay_count, 20u);
}

TEST_F(PrunedWalks, NothingGoesByLogitsThatAreNoNumbers) {
  CreateHeads({kShadow});
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}, {kD, 1}};
  std::vector<Logits> rows = {{{kA, 6}, {kB, 5}}, {}, {{kC, 1}, {kD, 1}, {kShadow, 7}}, {}, {}};
  EXPECT_THAT(Gone(Walk(greedy_, nodes), rows), testing::ElementsAre(3, 4));
  rows[2][kC] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Gone(Walk(greedy_, nodes), rows), testing::IsEmpty());
}

TEST_F(PrunedWalks, WhatIsOnlyWatchedStaysAndIsCounted) {
  CreateHeads({kShadow});
  const std::vector<DraftedNode> nodes = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}};
  const std::vector<Logits> one = {{{kA, 6}, {kB, 5}}, {}, {{kC, 2}, {kShadow, 7}}, {}};
  std::vector<Logits> rows = one;
  rows.insert(rows.end(), one.begin(), one.end());
  std::vector<TreeWalk> walks = {Walk(greedy_, nodes, Pruning::kWatch), Walk(greedy_, nodes)};
  walks[0].outcome = {2, kShadow};
  walks[1].root_row = 4;
  EXPECT_THAT(Gone(walks, rows), testing::ElementsAre(7));
  for (const TreeWalk& walk : walks) {
    EXPECT_EQ(walk.pruned.node_count, 1u);
    EXPECT_EQ(walk.pruned.rows, 0.5f);  // two of four layers
  }
  EXPECT_EQ(walks[0].pruned.lost_count, 1u);
  EXPECT_EQ(walks[1].pruned.lost_count, 0u);
}

// A chain is not scored where nobody guesses it; the walk beside it is, with its own rows.
TEST_F(PrunedWalks, AChainStaysAndIsInNobodysWay) {
  const std::vector<DraftedNode> chain = {{kA, DraftedNode::kRoot}, {kB, 0}, {kC, 1}};
  const std::vector<DraftedNode> tree = {
      {kA, DraftedNode::kRoot}, {kB, DraftedNode::kRoot}, {kC, 1}, {kD, 1}};
  const std::vector<Logits> rows = {{{kD, 9}}, {{kD, 9}}, {{kD, 9}}, {{kD, 9}}, {{kA, 6}, {kB, 5}},
                                    {{kE, 3}}, {{kC, 7}}, {},        {}};
  std::vector<TreeWalk> walks = {Walk(greedy_, chain), Walk(greedy_, tree)};
  walks[0].is_guessed = false;
  walks[1].root_row = 4;
  EXPECT_THAT(Gone(walks, rows), testing::ElementsAre(8));
  ASSERT_EQ(guesses_.size(), 1u);
  EXPECT_EQ(guesses_[0].walk, 1u);
  EXPECT_EQ(guesses_[0].outcome.node, 0u);
}

}  // namespace
}  // namespace outrider
