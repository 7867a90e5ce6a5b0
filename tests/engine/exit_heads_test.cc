// What exits say of passes: the target's own words where nothing comes after them, a plain walk
// elsewhere; and that nobody notices them.
#include "common/engine/exit_heads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/cpu_target.h"
#include "common/kernels/isa.h"
#include "common/model/hidden_recorder.h"
#include "common/tokens/sketch.h"
#include "common/verification/target_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {

namespace {

constexpr int32_t kVocabulary = 200;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Model {
  std::string family;
  TensorType type;
};

Hyperparameters FourLayers(const std::string& family) {
  Hyperparameters model = SmallModel(family);
  model.block_count = 4;
  model.head_count.assign(4, model.head_count[0]);
  model.head_count_kv.assign(4, model.head_count_kv[0]);
  return model;
}

// Layers from `first` on add nothing to the residual stream.
void SilenceLayers(const std::string& path, uint32_t first) {
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

SamplingOptions Sampled(uint64_t seed) {
  SamplingOptions options;
  options.temperature = 0.9;
  options.seed = seed;
  return options;
}

SamplingOptions Penalised(uint64_t seed) {
  SamplingOptions options = Sampled(seed);
  options.top_p = 0.95;
  options.repetition_penalty = 1.2;
  options.presence_penalty = 0.4;
  options.logit_bias = {{7, 0.5f}};
  return options;
}

std::vector<TokenId> RandomTokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % kVocabulary);
  return tokens;
}

// Among some tokens.
double LargestSoftmax(const std::vector<float>& logits, std::vector<TokenId> tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  double largest = 0, sum = 0;
  for (const TokenId token : tokens) {
    const double weight = std::exp(double{logits[static_cast<size_t>(token)]});
    largest = std::max(largest, weight);
    sum += weight;
  }
  return largest / sum;
}

// Of tokens from a few, so that whoever chooses among those few goes down it.
std::vector<DraftedNode> BushyTree(uint32_t seed, uint32_t count) {
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

// One sequence, with what a pass over it needs.
struct TargetSession {
  TargetSession(Target& target, const SamplingOptions& sampling, const std::vector<TokenId>& prompt)
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

TEST_F(ExitHeadsTest, IdentitiesBeforeSilentLayersSayTheVerdict) {
  for (const Model& model : {Model{"llama", TensorType::kQ8_0}, Model{"qwen2", TensorType::kF32},
                             Model{"qwen3", TensorType::kQ4_K}, Model{"gpt2", TensorType::kF16},
                             Model{"gpt2", TensorType::kQ8_0}}) {
    SCOPED_TRACE(model.family);
    Write(model.family, model.type, 1);
    Attach(Exits(0), ExitScope::kFull);
    const std::vector<DraftedNode> nodes = BushyTree(3, 12);
    const TargetSession greedy(*target_, {}, RandomTokens(9, 1));
    const TargetSession sampled(*target_, Sampled(5), RandomTokens(12, 2));
    const TargetSession penalised(*target_, Penalised(6), RandomTokens(20, 3));
    const auto results = Run({greedy.Over(nodes), sampled.Over(nodes), penalised.Over(nodes)});
    ASSERT_EQ(guesses_.size(), 9u);
    for (const ExitGuess& guess : guesses_) {
      ASSERT_TRUE(results[guess.walk].status.ok()) << results[guess.walk].status;
      EXPECT_TRUE(guess.outcome == results[guess.walk].outcome);
      EXPECT_EQ(guess.layer, guess.exit);
      EXPECT_EQ(guess.evidence.agrees_with_previous, guess.exit > 0);
      EXPECT_GT(guess.probability, 0);
      EXPECT_LE(guess.probability, 1);
    }
  }
}

// Logits of candidates alone, walked without any of the machinery.
Outcome PlainWalk(const std::function<std::vector<float>(uint32_t)>& logits_of,
                  const std::vector<TokenId>& candidates, const Pass& pass, uint32_t length) {
  ChooserScratch scratch(kVocabulary);
  uint32_t node = DraftedNode::kRoot;
  std::vector<TokenId> path;
  for (;;) {
    std::vector<float> logits = logits_of(node);
    for (TokenId token = 0; token < kVocabulary; ++token) {
      if (std::ranges::find(candidates, token) == candidates.end()) {
        logits[static_cast<size_t>(token)] = kMinusInfinity;
      }
    }
    const auto position = static_cast<uint32_t>(length + path.size());
    const TokenId chosen =
        OrDie(pass.chooser->Choose(logits, position, {*pass.history, path}, scratch));
    uint32_t child = DraftedNode::kRoot;
    for (uint32_t i = 0; i < pass.nodes.size(); ++i) {
      if (pass.nodes[i].parent == node && pass.nodes[i].token == chosen) child = i;
    }
    if (child == DraftedNode::kRoot) return {node, chosen};
    node = child;
    path.push_back(chosen);
  }
}

// The hidden states come from another transformer on the same weights, their logits from a scorer
// of all tokens.
TEST_F(ExitHeadsTest, AGuessIsAPlainWalkOverItsCandidates) {
  for (const Model& model : {Model{"llama", TensorType::kQ4_0}, Model{"qwen3", TensorType::kQ8_0},
                             Model{"gpt2", TensorType::kF32}}) {
    SCOPED_TRACE(model.family);
    Write(model.family, model.type);
    TrainedExits exits = Exits(0.2f, {1});
    exits.frequent_tokens = {4, 33};
    Attach(exits);
    LoadedModel engine(path_);
    const auto scorer = OrDie(ExitScorer::Create(
        exits, "exits", engine.spec, engine.weights->content_hash(), engine.weights->head(),
        KernelsFor(BestIsa()), *engine.pool, {.scope = ExitScope::kFull}));
    HiddenRecorder recorder({1}, engine.spec.embedding_length, 64);

    uint32_t steps = 0;
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const std::vector<TokenId> prompt = RandomTokens(5 + seed, seed);
      const TargetSession session(*target_,
                                  seed % 3 == 0   ? SamplingOptions{}
                                  : seed % 3 == 1 ? Sampled(seed)
                                                  : Penalised(seed),
                                  prompt);
      const std::vector<DraftedNode> nodes = BushyTree(seed, 24);
      const std::vector<TokenId> wider = {77, 78, 14, 77, -1, kVocabulary};
      const Pass pass = session.Over(nodes, wider);
      ASSERT_TRUE(Run({pass})[0].status.ok());
      ASSERT_EQ(guesses_.size(), 1u);

      const auto sequence = engine.NewSequence();
      engine.Read(*sequence, std::span(prompt).first(prompt.size() - 1));
      OUTRIDER_CHECK_OK(sequence->Reserve(1, static_cast<uint32_t>(nodes.size())));
      engine.batch.Clear();
      engine.batch.AddChain(*sequence, {&prompt.back(), 1});
      engine.AddNodes(*sequence, nodes);
      OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, &recorder));
      const auto logits_of = [&](uint32_t node) {
        const size_t row = node == DraftedNode::kRoot ? 0 : 1 + node;
        const float* const hidden = recorder.hidden(0).data() + row * engine.spec.embedding_length;
        const std::span<const float> logits = scorer->Score(0, {&hidden, 1}).row(0);
        return std::vector<float>(logits.begin(), logits.end());
      };
      std::vector<TokenId> candidates = {4, 33, 77, 78, 14};
      for (const DraftedNode& node : nodes) candidates.push_back(node.token);
      const Outcome expected =
          PlainWalk(logits_of, candidates, pass, static_cast<uint32_t>(prompt.size()));
      EXPECT_TRUE(guesses_[0].outcome == expected)
          << guesses_[0].outcome.node << " " << guesses_[0].outcome.next << ", expected "
          << expected.node << " " << expected.next;
      EXPECT_EQ(guesses_[0].evidence.agrees_with_first_draft,
                FollowsFirstDraft(nodes, expected.node));
      EXPECT_NEAR(guesses_[0].evidence.largest_softmax,
                  LargestSoftmax(logits_of(expected.node), candidates), 1e-5);
      steps += expected.node != DraftedNode::kRoot ? 1 : 0;
      OUTRIDER_CHECK_OK(target_->Close(session.id));
    }
    EXPECT_GE(steps, 2u);  // the trees were worth walking
  }
}

// The whole way: what the sketch knows just outside the pass is what the exit looks among.
TEST_F(ExitHeadsTest, AnExitGuessesATokenThatTheSketchKnowsAndThePassDidNotTake) {
  Write("llama", TensorType::kQ8_0, 1);
  const TargetSession session(*target_, {}, RandomTokens(9, 1));
  const TokenId truth = Run({session.Over({})})[0].outcome.next;
  const TokenId other = truth == 4 ? 5 : 4;
  TrainedExits exits = Exits(0, {1});
  exits.frequent_tokens = {other == 4 ? 6 : 4};
  Attach(exits);

  Sketch sketch(8);
  for (const auto& [id, token] : {std::pair(1u, other), std::pair(2u, truth)}) {
    OUTRIDER_CHECK_OK(
        sketch.Grow({.id = id, .parent = Sketch::kRoot, .token = token, .doubt = id}, 0).status());
  }
  Sketch::Taken taken;
  sketch.Take(1, taken);
  std::vector<TokenId> beside;
  sketch.TokensBeside(taken, beside);
  std::vector<Outcome> guessed;
  FakeClock clock;
  TargetRunner runner(*target_, clock,
                      [&](uint64_t, const ExitGuess& guess) { guessed.push_back(guess.outcome); });
  for (const bool with : {false, true}) {
    TargetRun run;
    TargetWork& work = run.works.emplace_back();
    work.session = 1;
    work.sequence = session.id;
    work.has_pass = work.is_guessed = true;
    work.nodes = taken.nodes;
    if (with) work.candidates = beside;
    work.chooser = &session.chooser;
    work.history = &session.history;
    runner.Execute(run);
    ASSERT_TRUE(run.works[0].status.ok()) << run.works[0].status;
    EXPECT_EQ(run.works[0].outcome, (Outcome{DraftedNode::kRoot, truth}));
  }
  ASSERT_EQ(guessed.size(), 2u);
  EXPECT_NE(guessed[0].next, truth);
  EXPECT_EQ(guessed[1], (Outcome{DraftedNode::kRoot, truth}));
}

// Of 6 candidates in a run the first walk wants all; the law is that the second one, which wants
// one, has it, and the third one as many as the first.
TEST_F(ExitHeadsTest, WalksOfARunShareItsCandidatesEvenly) {
  Write("llama", TensorType::kQ8_0, 1);
  const TargetSession first(*target_, {}, RandomTokens(9, 1));
  const TargetSession second(*target_, {}, RandomTokens(7, 2));
  const TargetSession third(*target_, {}, RandomTokens(5, 3));
  const auto results = Run({first.Over({}), second.Over({}), third.Over({})});
  TrainedExits exits = Exits(0, {1});
  exits.frequent_tokens = {0};
  OUTRIDER_CHECK_OK(target_->AttachExits(exits, "exits", {.candidate_count_max = 6}));
  target_->HearExits(&keeper_);

  // Tokens nobody chooses, and the truth as the last one of so many.
  const auto wanted = [&](size_t walk, size_t count) {
    std::vector<TokenId> tokens;
    for (TokenId token = 100; tokens.size() + 1 < count; ++token) {
      if (token != results[walk].outcome.next) tokens.push_back(token);
    }
    tokens.push_back(results[walk].outcome.next);
    return tokens;
  };
  const auto guessed_right = [&](size_t of_first, size_t of_third) {
    const auto a = wanted(0, of_first), b = wanted(1, 1), c = wanted(2, of_third);
    std::vector<TokenId> more_a = a, more_c = c;
    for (TokenId token = 50; token < 80; ++token) more_a.push_back(token), more_c.push_back(token);
    Run({first.Over({}, more_a), second.Over({}, b), third.Over({}, more_c)});
    std::vector<bool> right(3);
    for (const ExitGuess& guess : guesses_) {
      right[guess.walk] = guess.outcome == results[guess.walk].outcome;
    }
    return right;
  };
  EXPECT_THAT(guessed_right(2, 2), testing::ElementsAre(true, true, true));
  EXPECT_THAT(guessed_right(3, 3), testing::ElementsAre(false, true, false));
}

TEST_F(ExitHeadsTest, NeighboursChangeNothing) {
  Write("llama", TensorType::kQ8_0);
  Attach(Exits(0.2f));
  std::vector<std::unique_ptr<TargetSession>> sessions;
  std::vector<std::vector<DraftedNode>> trees;
  for (uint32_t i = 0; i < 7; ++i) {
    sessions.push_back(std::make_unique<TargetSession>(
        *target_, i % 2 == 0 ? SamplingOptions{} : Penalised(i), RandomTokens(3 + 5 * i, i)));
    trees.push_back(BushyTree(i, 3 * i));
  }
  std::vector<Pass> together;
  std::map<std::pair<uint32_t, size_t>, ExitGuess> alone;  // by exit and session
  for (uint32_t i = 0; i < 7; ++i) {
    together.push_back(sessions[i]->Over(trees[i]));
    ASSERT_TRUE(Run({together.back()})[0].status.ok());
    for (const ExitGuess& guess : guesses_) alone[{guess.exit, i}] = guess;
  }
  Run(together);
  ASSERT_EQ(guesses_.size(), 21u);
  for (const ExitGuess& guess : guesses_) {
    const ExitGuess& expected = alone.at({guess.exit, guess.walk});
    EXPECT_TRUE(guess.outcome == expected.outcome);
    EXPECT_EQ(guess.probability, expected.probability);
    EXPECT_EQ(guess.evidence.largest_softmax, expected.evidence.largest_softmax);
  }
}

// Heads on a bench: what they are shown and what they are told of is the test's own affair.
class ShownExitHeads : public ExitHeadsTest {
 protected:
  static constexpr uint32_t kEmbedding = 256;

  ShownExitHeads() {
    Write("llama", TensorType::kQ8_0);
    model_ = std::make_unique<LoadedModel>(path_);
    heads_ = OrDie(ExitHeads::Create(Exits(0.2f, {1}), "exits",
                                     {.spec = model_->spec,
                                      .info = target_->engine().info(),
                                      .head = model_->weights->head(),
                                      .kernels = KernelsFor(BestIsa()),
                                      .pool = *pool_},
                                     {}, keeper_));
    std::mt19937 random(7);
    states_.resize(size_t{kRows} * kEmbedding);
    for (float& state : states_) state = static_cast<float>(random() % 2001) / 1000 - 1;
  }

  // Only some of the rows are left in the run.
  std::vector<ExitGuess> Show(const std::vector<TreeWalk>& walks,
                              const std::vector<uint32_t>& rows) {
    guesses_.clear();
    std::vector<float> left;
    for (const uint32_t row : rows) {
      const auto first = states_.begin() + ptrdiff_t{row} * kEmbedding;
      left.insert(left.end(), first, first + kEmbedding);
    }
    const auto dropped = std::make_unique<bool[]>(rows.size());
    LayerView view(rows, left.data(), kEmbedding, kEmbedding, {dropped.get(), rows.size()});
    heads_->BeginRun(walks);
    heads_->AfterLayer(1, view);
    return guesses_;
  }

  static constexpr uint32_t kRows = 40;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<ExitHeads> heads_;
  std::vector<float> states_;
  const Chooser chooser_ = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history_{{.vocabulary_size = kVocabulary, .capacity = 8}};
};

std::vector<uint32_t> RowsBetween(uint32_t first, uint32_t end) {
  std::vector<uint32_t> rows;
  for (uint32_t row = first; row < end; ++row) rows.push_back(row);
  return rows;
}

TEST_F(ShownExitHeads, RowsOfNoWalkAreLeftAlone) {
  const std::vector<DraftedNode> nodes = BushyTree(1, 9);
  const TreeWalk walk = {
      .root_row = 17, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const auto beside = Show({walk}, RowsBetween(0, kRows));
  const auto alone = Show({walk}, RowsBetween(17, 27));
  ASSERT_EQ(beside.size(), 1u);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(beside[0].outcome == alone[0].outcome);
  EXPECT_EQ(beside[0].probability, alone[0].probability);
}

TEST_F(ShownExitHeads, AWalkWhoseRootWasDroppedIsNotGuessed) {
  const std::vector<DraftedNode> nodes = BushyTree(1, 9);
  const TreeWalk gone = {.root_row = 3, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const TreeWalk here = {
      .root_row = 17, .nodes = nodes, .chooser = &chooser_, .history = &history_};
  const auto alone = Show({gone, here}, RowsBetween(17, 27));
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].walk, 1u);
  EXPECT_TRUE(Show({gone}, RowsBetween(17, 27)).empty());
  EXPECT_TRUE(Show({gone, here}, {}).empty());
}

// A row that was dropped takes those below it with it.
TEST_F(ShownExitHeads, ANodeThatWasDroppedCountsAsNeverDrafted) {
  TreeWalk walk = {.root_row = 5, .nodes = {}, .chooser = &chooser_, .history = &history_};
  const TokenId chosen = Show({walk}, RowsBetween(0, kRows))[0].outcome.next;
  const std::vector<DraftedNode> nodes = {
      {8, DraftedNode::kRoot}, {chosen, DraftedNode::kRoot}, {9, 1}, {9, 0}};
  walk.nodes = nodes;
  EXPECT_NE(Show({walk}, RowsBetween(0, kRows))[0].outcome.node, DraftedNode::kRoot);
  const Outcome cut = Show({walk}, {0, 1, 2, 3, 4, 5, 6, 9})[0].outcome;
  EXPECT_EQ(cut.node, DraftedNode::kRoot);
  EXPECT_EQ(cut.next, chosen);
}

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
                                      .head = model_->weights->head(),
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
    const Chooser chooser = OrDie(Chooser::Create(Sampled(seed), kVocabulary));
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

TEST_F(ExitHeadsTest, CalibrationMakesTheProbability) {
  Write("llama", TensorType::kQ8_0);
  TrainedExits exits = Exits(0.2f, {0, 2});
  const ExitCalibration greedy = {.kappa = 0.5f,
                                  .bias = 0.25f,
                                  .doubt = {.knots = {0, 3}, .slopes = {-0.5f}},
                                  .entropy = {},
                                  .margin = {.knots = {0, 1}, .slopes = {1}},
                                  .agrees_with_previous = 2,
                                  .agrees_with_first_draft = 1};
  ExitCalibration sampled = greedy;
  sampled.bias = -3;
  exits.exits[1].greedy = greedy;
  exits.exits[1].sampled = sampled;
  Attach(exits);
  const TargetSession one(*target_, {}, RandomTokens(9, 1));
  const TargetSession other(*target_, Sampled(3), RandomTokens(9, 1));
  const std::vector<DraftedNode> nodes = BushyTree(1, 12);
  Run({one.Over(nodes), other.Over(nodes)});
  ASSERT_EQ(guesses_.size(), 4u);
  for (const ExitGuess& guess : guesses_) {
    const float expected = guess.exit == 0   ? UncalibratedProbabilityOf(guess.evidence)
                           : guess.walk == 0 ? ProbabilityOf(guess.evidence, greedy)
                                             : ProbabilityOf(guess.evidence, sampled);
    EXPECT_EQ(guess.probability, expected);
  }
  // Kappa is in the evidence: without it there is less of a margin, and more doubt.
  const float margin = guesses_[2].evidence.margin;
  const float doubt = guesses_[2].evidence.doubt;
  exits.exits[1].greedy.reset();
  Attach(exits);
  Run({one.Over(nodes)});
  EXPECT_NEAR(guesses_[1].evidence.margin, margin / 2, 1e-6);
  EXPECT_GT(guesses_[1].evidence.doubt, doubt);
}

// For whoever wants to weigh it again.
TEST_F(ExitHeadsTest, AGuessTellsWhatItIsMadeOf) {
  Write("llama", TensorType::kQ8_0);
  uint32_t choices = 0;
  const auto check = [&](const ExitGuess& guess) {
    ExitEvidence again;
    for (const std::span<const Ranked> ranked : guess.ranked) again.AddChoice(ranked, 1);
    EXPECT_EQ(again.doubt, guess.evidence.doubt);
    EXPECT_EQ(again.entropy, guess.evidence.entropy);
    EXPECT_EQ(again.margin, guess.evidence.margin);
    EXPECT_EQ(guess.ranked.back()[0].token, guess.outcome.next);
    choices += static_cast<uint32_t>(guess.ranked.size());
  };
  GuessKeeper checker(check);
  OUTRIDER_CHECK_OK(target_->AttachExits(Exits(0.2f), "exits", {}));
  target_->HearExits(&checker);
  std::vector<std::unique_ptr<TargetSession>> sessions;
  std::vector<std::vector<DraftedNode>> trees;
  std::vector<Pass> passes;
  for (uint32_t i = 0; i < 6; ++i) {
    sessions.push_back(std::make_unique<TargetSession>(
        *target_, i % 2 == 0 ? SamplingOptions{} : Sampled(i), RandomTokens(9, i)));
    trees.push_back(BushyTree(i, 24));
  }
  for (uint32_t i = 0; i < 6; ++i) passes.push_back(sessions[i]->Over(trees[i]));
  Run(passes);
  EXPECT_GT(choices, 3u * 6);  // some walks are longer than a node
}

TEST_F(ExitHeadsTest, AnExitThatIsOffSaysNothing) {
  Write("llama", TensorType::kQ8_0);
  Attach(Exits(0.2f));
  const TargetSession session(*target_, {}, RandomTokens(4, 1));
  target_->engine().SwitchExit(1, false);
  Run({session.Over({})});
  ASSERT_EQ(guesses_.size(), 2u);
  EXPECT_EQ(guesses_[0].layer, 0u);
  EXPECT_EQ(guesses_[1].layer, 2u);
  target_->engine().SwitchExit(1, true);
  Run({session.Over({})});
  EXPECT_EQ(guesses_.size(), 3u);
}

TEST_F(ExitHeadsTest, APassOfNoNumbersIsToldNothing) {
  Write("llama", TensorType::kF32);
  const auto model = OrDie(ModelFile::Open(path_));
  std::string bytes = Contents(path_);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr TokenId kBad = 77;
  std::memcpy(bytes.data() + model->Find("token_embd.weight")->place->offset +
                  static_cast<size_t>(kBad) * 256 * 4,
              &nan, sizeof(nan));
  path_ = dir_.Write("nan.gguf", bytes);
  target_ = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, {.sequence_count_max = 8},
                                KernelsFor(BestIsa()), *pool_, nullptr));
  Attach(Exits(0.2f));
  const TargetSession bad(*target_, {}, {1, kBad});
  const TargetSession good(*target_, {}, {1, 2});
  const auto results = Run({bad.Over({}), good.Over({})});
  EXPECT_FALSE(results[0].status.ok());
  EXPECT_TRUE(results[1].status.ok());
  ASSERT_EQ(guesses_.size(), 3u);
  for (const ExitGuess& guess : guesses_) EXPECT_EQ(guess.walk, 1u);
}

TEST_F(ExitHeadsTest, NothingAllocatesInSteadyState) {
  Write("llama", TensorType::kQ4_K);
  for (const ExitScope scope : {ExitScope::kCandidates, ExitScope::kFull}) {
    Attach(Exits(0.2f), scope);
    const TargetSession greedy(*target_, {}, RandomTokens(9, 1));
    const TargetSession sampled(*target_, Penalised(4), RandomTokens(12, 2));
    const std::vector<DraftedNode> nodes = BushyTree(3, 14);
    const std::vector<TokenId> candidates = RandomTokens(300, 8);
    const std::vector<Pass> passes = {greedy.Over(nodes, candidates), sampled.Over(nodes)};
    std::vector<PassResult> results(2);
    target_->Run({}, passes, results);  // warms up
    guesses_.clear();
    const uint64_t before = AllocationCount();
    for (int i = 0; i < 20; ++i) target_->Run({}, passes, results);
    EXPECT_EQ(AllocationCount(), before);
    EXPECT_EQ(guesses_.size(), 120u);
    OUTRIDER_CHECK_OK(target_->Close(greedy.id));
    OUTRIDER_CHECK_OK(target_->Close(sampled.id));
  }
}

}  // namespace
}  // namespace outrider
