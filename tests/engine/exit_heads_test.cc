// What exits say of passes: the target's own words where nothing comes after them, a plain walk
// elsewhere; and that nobody notices them.
#include "common/engine/exit_heads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
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
#include "tests/engine/exit_heads.h"
#include "tests/engine/guesses.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Model {
  std::string family;
  TensorType type;
};

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

TEST_F(ExitHeadsTest, IdentitiesBeforeSilentLayersSayTheVerdict) {
  for (const Model& model : {Model{"llama", TensorType::kQ8_0}, Model{"qwen2", TensorType::kF32},
                             Model{"qwen3", TensorType::kQ4_K}, Model{"gpt2", TensorType::kF16},
                             Model{"gpt2", TensorType::kQ8_0}}) {
    SCOPED_TRACE(model.family);
    Write(model.family, model.type, 1);
    Attach(Exits(0), ExitScope::kFull);
    const std::vector<DraftedNode> nodes = BushyTree(3, 12);
    const GuessedSession greedy(*target_, {}, RandomTokens(9, 1));
    const GuessedSession sampled(*target_, Drawn(5), RandomTokens(12, 2));
    const GuessedSession penalised(*target_, Penalised(6), RandomTokens(20, 3));
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
      const GuessedSession session(*target_,
                                   seed % 3 == 0   ? SamplingOptions{}
                                   : seed % 3 == 1 ? Drawn(seed)
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
  const GuessedSession session(*target_, {}, RandomTokens(9, 1));
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
  const GuessedSession first(*target_, {}, RandomTokens(9, 1));
  const GuessedSession second(*target_, {}, RandomTokens(7, 2));
  const GuessedSession third(*target_, {}, RandomTokens(5, 3));
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
  std::vector<std::unique_ptr<GuessedSession>> sessions;
  std::vector<std::vector<DraftedNode>> trees;
  for (uint32_t i = 0; i < 7; ++i) {
    sessions.push_back(std::make_unique<GuessedSession>(
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
  const GuessedSession one(*target_, {}, RandomTokens(9, 1));
  const GuessedSession other(*target_, Drawn(3), RandomTokens(9, 1));
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
  std::vector<std::unique_ptr<GuessedSession>> sessions;
  std::vector<std::vector<DraftedNode>> trees;
  std::vector<Pass> passes;
  for (uint32_t i = 0; i < 6; ++i) {
    sessions.push_back(std::make_unique<GuessedSession>(
        *target_, i % 2 == 0 ? SamplingOptions{} : Drawn(i), RandomTokens(9, i)));
    trees.push_back(BushyTree(i, 24));
  }
  for (uint32_t i = 0; i < 6; ++i) passes.push_back(sessions[i]->Over(trees[i]));
  Run(passes);
  EXPECT_GT(choices, 3u * 6);  // some walks are longer than a node
}

TEST_F(ExitHeadsTest, AnExitThatIsOffSaysNothing) {
  Write("llama", TensorType::kQ8_0);
  Attach(Exits(0.2f));
  const GuessedSession session(*target_, {}, RandomTokens(4, 1));
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
  const GuessedSession bad(*target_, {}, {1, kBad});
  const GuessedSession good(*target_, {}, {1, 2});
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
    const GuessedSession greedy(*target_, {}, RandomTokens(9, 1));
    const GuessedSession sampled(*target_, Penalised(4), RandomTokens(12, 2));
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
