// What exits compute: the formula in double precision, and candidates' logits as bits of the full
// ones.
#include "common/model/exits/exit_scorer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/hidden_recorder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

constexpr uint64_t kHash = 0x1234;
constexpr uint32_t kRank = 24;

class ExitScorerTest : public testing::Test {
 protected:
  std::unique_ptr<LoadedModel> Load(const std::string& family, TensorType type) {
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(family), type, path);
    return std::make_unique<LoadedModel>(path);
  }

  // Hidden states of all sizes: rows of real models grow with depth.
  static std::vector<std::vector<float>> RandomStates(uint32_t width, size_t count) {
    std::mt19937 random(5);
    std::vector<std::vector<float>> states(count, std::vector<float>(width));
    for (size_t i = 0; i < count; ++i) {
      const float size = std::ldexp(1.0f, static_cast<int>(i % 12) - 4);
      for (float& x : states[i]) {
        x = size * static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 1000;
      }
      states[i][i % width] *= 30;  // an outlier
    }
    return states;
  }
  static std::vector<const float*> Pointers(const std::vector<std::vector<float>>& states) {
    std::vector<const float*> pointers;
    for (const auto& state : states) pointers.push_back(state.data());
    return pointers;
  }

  static std::unique_ptr<ExitScorer> Score(const LoadedModel& engine, const TrainedExits& exits,
                                           ExitScope scope) {
    return OrDie(ExitScorer::Create(exits, "x", engine.spec, kHash, engine.weights->head(),
                                    KernelsFor(BestIsa()), *engine.pool, {.scope = scope}));
  }

  ScratchDir dir_;
};

// The formula of exit_scorer.h, nothing but double.
std::vector<double> PlainLogits(const ModelSpec& spec, const HeadWeights& head,
                                const TrainedExit& exit, const std::vector<float>& hidden) {
  const size_t width = hidden.size();
  double squares = 0;
  for (const float x : hidden) squares += double{x} * x;
  const double r = std::sqrt(squares / static_cast<double>(width) + spec.norm_epsilon);
  std::vector<double> state(hidden.begin(), hidden.end());
  for (uint32_t i = 0; i < exit.rank; ++i) {
    double inner = 0;
    for (size_t k = 0; k < width; ++k) inner += exit.down[i * width + k] * (hidden[k] / r);
    const double activated = inner / (1 + std::exp(-inner));
    for (size_t k = 0; k < width; ++k) state[k] += r * exit.up[k * exit.rank + i] * activated;
  }
  double mean = 0;
  if (spec.norm == NormKind::kLayer) {
    for (const double x : state) mean += x / static_cast<double>(width);
  }
  double variance = 0;
  for (const double x : state) variance += (x - mean) * (x - mean) / static_cast<double>(width);
  const double scale = 1 / std::sqrt(variance + spec.norm_epsilon);
  const Norm& norm = head.norm;
  for (size_t k = 0; k < width; ++k) {
    state[k] = (state[k] - mean) * scale * norm.weight[k] + (norm.bias.empty() ? 0 : norm.bias[k]);
  }
  std::vector<double> logits(spec.vocabulary_size);
  std::vector<float> row(width);
  for (uint32_t token = 0; token < spec.vocabulary_size; ++token) {
    DecodeRow(head.matrix, token, row);
    for (size_t k = 0; k < width; ++k) logits[token] += row[k] * state[k];
  }
  return logits;
}

// F32 weights, so that only roundings of floats are between the two. A norm brings the state to
// about one, head weights are up to 0.12: a logit is a sum of 256 terms, each off by a few 2^-24 of
// its size, which sums to less than 256 * 0.12 * 5 * 2^-22.
TEST_F(ExitScorerTest, ComputesTheFormula) {
  for (const std::string family : {"llama", "qwen2", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    const auto engine = Load(family, TensorType::kF32);
    TrainedExits exits = RandomExits(engine->spec, kHash, {0}, kRank, 0.25f);
    const auto states = RandomStates(engine->spec.embedding_length, 7);
    for (const TensorType type : {TensorType::kF32, TensorType::kF16}) {
      exits.type = type;
      const auto scorer = Score(*engine, exits, ExitScope::kFull);
      const ExitLogits logits = scorer->Score(0, Pointers(states));
      ASSERT_EQ(logits.length, engine->spec.vocabulary_size);
      for (size_t i = 0; i < states.size(); ++i) {
        const std::vector<double> expected =
            PlainLogits(engine->spec, engine->weights->head(), exits.exits[0], states[i]);
        for (size_t token = 0; token < expected.size(); ++token) {
          ASSERT_NEAR(logits.row(i)[token], expected[token], 4e-5) << i << ", token " << token;
        }
      }
    }
  }
}

// Every type with panels, and Q5_K, which has none.
TEST_F(ExitScorerTest, ScoresCandidatesAsItScoresAll) {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0,
        TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ5_K}) {
    SCOPED_TRACE(Name(type));
    const auto engine = Load("llama", type);
    const TrainedExits exits = RandomExits(engine->spec, kHash, {0}, kRank, 0.25f);
    const auto states = RandomStates(engine->spec.embedding_length, 33);
    const auto all = Score(*engine, exits, ExitScope::kFull);
    const auto some = Score(*engine, exits, ExitScope::kCandidates);
    const ExitLogits full = all->Score(0, Pointers(states));
    std::mt19937 random(6);
    for (const size_t count : {0, 1, 15, 16, 17, 40}) {
      std::vector<TokenId> round;
      for (TokenId token = 0; round.size() < count;
           token += 1 + static_cast<TokenId>(random() % 4)) {
        if (!std::ranges::binary_search(exits.frequent_tokens, token)) round.push_back(token);
      }
      some->SetRound(round);
      const ExitLogits logits = some->Score(0, Pointers(states));
      std::vector<TokenId> tokens = exits.frequent_tokens;
      tokens.insert(tokens.end(), round.begin(), round.end());
      ASSERT_EQ(logits.length, tokens.size());
      for (size_t i = 0; i < states.size(); ++i) {
        for (size_t n = 0; n < tokens.size(); ++n) {
          ASSERT_EQ(std::bit_cast<uint32_t>(logits.row(i)[n]),
                    std::bit_cast<uint32_t>(full.row(i)[static_cast<size_t>(tokens[n])]))
              << "row " << i << ", token " << tokens[n];
        }
      }
    }
  }
}

TEST_F(ExitScorerTest, OtherPeoplesExitsAreRefusedByBothNames) {
  const auto engine = Load("llama", TensorType::kQ8_0);
  const auto refuse = [&](const std::function<void(ExitsTarget&)>& change,
                          const std::string& part) {
    TrainedExits exits = RandomExits(engine->spec, kHash, {0}, kRank, 0);
    change(exits.target);
    const auto scorer =
        ExitScorer::Create(exits, "some.exits.gguf", engine->spec, kHash, engine->weights->head(),
                           KernelsFor(BestIsa()), *engine->pool, {});
    EXPECT_EQ(scorer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(scorer.status())), testing::HasSubstr(part));
  };
  refuse([](ExitsTarget& target) { target.content_hash = 0x99; },
         "some.exits.gguf: was trained for llama (2 layers of 256, 200 tokens, weights "
         "0000000000000099), and the target is llama (2 layers of 256, 200 tokens, weights "
         "0000000000001234); train exits for it");
  refuse([](ExitsTarget& target) { target.layer_count = 3; }, "llama (3 layers of 256");
  TrainedExits renamed = RandomExits(engine->spec, kHash, {0}, kRank, 0);
  renamed.target.name = "another name";
  EXPECT_NE(Score(*engine, renamed, ExitScope::kFull), nullptr);
}

TEST_F(ExitScorerTest, OnlyTheShapeTellsWhileTheHashIsNotKnown) {
  const auto engine = Load("llama", TensorType::kQ8_0);
  TrainedExits exits = RandomExits(engine->spec, kHash, {0}, kRank, 0);
  EXPECT_TRUE(CheckExits(exits.target, "x", engine->spec, std::nullopt).ok());
  EXPECT_TRUE(CheckExits(exits.target, "x", engine->spec, kHash).ok());
  EXPECT_FALSE(CheckExits(exits.target, "x", engine->spec, kHash + 1).ok());
  exits.target.layer_count = 3;
  EXPECT_THAT(std::string(Message(CheckExits(exits.target, "x", engine->spec, std::nullopt))),
              testing::HasSubstr("weights not read yet"));
}

// What the recorder keeps is what exits are shown: the identity's logits of it are the target's own
// when nothing comes after.
TEST_F(ExitScorerTest, ARecorderKeepsWhatTheLayersHandOn) {
  const auto engine = Load("llama", TensorType::kQ8_0);
  const uint32_t width = engine->spec.embedding_length;
  HiddenRecorder recorder({0}, width, 64);
  const auto sequence = engine->NewSequence();
  const std::vector<TokenId> tokens = {1, 5, 9, 13, 2};
  OUTRIDER_CHECK_OK(sequence->Reserve(5, 0));
  engine->batch.AddChain(*sequence, tokens);
  OUTRIDER_CHECK_OK(engine->transformer->Forward(engine->batch, &recorder));
  ASSERT_EQ(recorder.hidden(0).size(), tokens.size() * width);
  class Comparer : public LayerObserver {
   public:
    explicit Comparer(const HiddenRecorder& kept) : kept_(kept) {}
    void AfterLayer(uint32_t layer, LayerView& view) override {
      EXPECT_EQ(layer, 0u);
      for (size_t i = 0; i < view.rows().size(); ++i) {
        const size_t count = view.hidden(i).size();
        EXPECT_TRUE(std::ranges::equal(view.hidden(i), kept_.hidden(0).subspan(i * count, count)));
        ++seen;
      }
    }
    size_t seen = 0;

   private:
    const HiddenRecorder& kept_;
  };
  Comparer comparer(recorder);
  OUTRIDER_CHECK_OK(engine->transformer->Forward(engine->batch, &comparer));
  EXPECT_EQ(comparer.seen, tokens.size());
}

}  // namespace
}  // namespace outrider
