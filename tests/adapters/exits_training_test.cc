// Exits while they are trained: the arithmetic, what it is trained on, and that it learns.
#include "adapters/exits/exits_training.h"

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "common/kernels/isa.h"
#include "common/model/exits/exit_scorer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

at::Tensor Random(std::vector<int64_t> shape, uint64_t seed, at::ScalarType type = at::kFloat) {
  return at::empty(shape, type).normal_(0, 1, at::detail::createCPUGenerator(seed));
}

// How far apart, of how large they are.
double Distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// --- losses ---

TEST(Divergence, IsThatOfTheSoftmaxes) {
  // p = 1/4, 3/4 and q = 1/2, 1/2
  const at::Tensor target = at::tensor({0.0, std::log(3.0)}, at::kDouble).unsqueeze(0);
  const at::Tensor exit = at::zeros({1, 2}, at::kDouble);
  const double expected = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  EXPECT_NEAR(Divergence(target, exit, 1).item<double>(), expected, 1e-12);
  EXPECT_NEAR(Divergence(target * 3, exit, 3).item<double>(), expected, 1e-12);
  EXPECT_NEAR(Divergence(target, target + 5, 1).item<double>(), 0, 1e-12);
}

TEST(ExitLoss, OverAllTokensAsCandidatesIsTheDivergenceTwice) {
  const at::Tensor target = Random({5, 7}, 1), exit = Random({5, 7}, 2);
  const at::Tensor all = at::arange(7).flip(0).expand({5, 7});
  const double whole = Divergence(target, exit, 2).sum().item<double>();
  const ExitLossOptions options = {
      .temperature = 2, .candidate_weight = 0.5, .candidate_temperature = 2};
  EXPECT_NEAR(ExitLoss(target, exit, all, options).item<double>(), 4 * 1.5 * whole, 1e-4);
}

TEST(ExitLoss, AsksOfCandidatesOnlyHowTheyCompare) {
  at::Tensor target = Random({1, 6}, 3), exit = target.clone();
  const at::Tensor candidates = at::tensor({1, 4}, at::kLong).unsqueeze(0);
  const auto among = [&] {
    const double with = ExitLoss(target, exit, candidates, {.candidate_weight = 1}).item<double>();
    return with - ExitLoss(target, exit, candidates, {.candidate_weight = 0}).item<double>();
  };
  exit.select(1, 0) += 3;  // not one of them
  EXPECT_NEAR(among(), 0, 1e-6);
  exit.select(1, 4) += 3;
  EXPECT_GT(among(), 0.05);
}

// --- adapters ---

class StoriesExits : public testing::Test {
 protected:
  std::unique_ptr<ModelFile> file_ = OrDie(ModelFile::Open(Stories()));
  ModelSpec spec_ = OrDie(ModelSpec::From(*file_, Stories()));
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::vector<uint32_t> layers_ = {2, 3};
};

TEST_F(StoriesExits, BeginAsTheIdentity) {
  ExitAdapters adapters(spec_, layers_, 8, 1, at::kCPU);
  const at::Tensor hidden = Random({9, spec_.embedding_length}, 4);
  EXPECT_TRUE(at::equal(adapters.Adapt(1, hidden), hidden));
}

TEST_F(StoriesExits, HaveTheGradientOfTheirLoss) {
  ExitAdapters adapters(spec_, layers_, 4, 1, at::kCPU);
  const int64_t length = spec_.embedding_length, vocabulary = 11;
  const at::Tensor hidden = Random({3, length}, 5, at::kDouble);
  const at::Tensor matrix = Random({vocabulary, length}, 6, at::kDouble);
  const at::Tensor target = Random({3, vocabulary}, 7, at::kDouble);
  const at::Tensor candidates = at::tensor({1, 5, 9}, at::kLong).expand({3, 3});
  for (size_t i = 0; i < adapters.parameters().size(); ++i) {
    adapters.parameters()[i].value =
        Random(adapters.parameters()[i].value.sizes().vec(), 8 + i, at::kDouble) * 0.2;
  }
  const auto loss = [&] {
    return ExitLoss(target, at::linear(adapters.Adapt(0, hidden), matrix), candidates, {});
  };
  for (size_t i : {0, 1}) {
    at::Tensor& parameter = adapters.parameters()[i].value;
    parameter.requires_grad_(true);
    loss().backward();
    const at::Tensor gradient = parameter.grad().clone();
    parameter.requires_grad_(false);
    for (const int64_t at : {0, 17, 100, 255}) {
      at::Tensor value = parameter.flatten()[at];
      // The error of central differences is about h^2 f''' / 6, and the rounding's 1e-16 f / h.
      constexpr double kStep = 1e-5;
      const double before = value.item<double>();
      value.fill_(before + kStep);
      const double above = loss().item<double>();
      value.fill_(before - kStep);
      const double below = loss().item<double>();
      value.fill_(before);
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.flatten()[at].item<double>(), expected, 1e-6 + 1e-6 * std::abs(expected))
          << adapters.parameters()[i].name << ", element " << at;
    }
  }
}

TEST_F(StoriesExits, SayInTheCoreWhatTheySayInTraining) {
  ExitAdapters adapters(spec_, layers_, 8, 1, at::kCPU);
  for (size_t i = 0; i < 4; ++i) {
    at::Tensor& value = adapters.parameters()[i].value;
    value = Random(value.sizes().vec(), 20 + i) * 0.2;
  }
  const LoadedModel engine(Stories());
  const uint64_t hash = engine.weights->content_hash();
  TrainedExits exits;
  exits.target = DescribeForExits(spec_, hash);
  exits.exits = adapters.Trained();
  const auto scorer =
      OrDie(ExitScorer::Create(exits, "exits", spec_, hash, engine.weights->head(),
                               KernelsFor(BestIsa()), *engine.pool, {.scope = ExitScope::kFull}));
  const FrozenHead head = OrDie(FrozenHead::Load(*file_, Stories(), at::kCPU));
  const at::Tensor hidden = Random({5, spec_.embedding_length}, 30) * 3;
  std::vector<const float*> rows;
  for (int64_t i = 0; i < 5; ++i) rows.push_back(hidden[i].data_ptr<float>());
  for (size_t exit : {0, 1}) {
    const at::Tensor expected = head.Apply(adapters.Adapt(exit, hidden));
    const ExitLogits logits = scorer->Score(exit, rows);
    for (size_t i = 0; i < 5; ++i) {
      const at::Tensor said = at::tensor(at::ArrayRef<float>(logits.row(i).data(), logits.length));
      // Sums of a few hundred float products in another order.
      EXPECT_LE(Distance(said, expected[static_cast<int64_t>(i)]), 1e-5);
    }
  }
}

// --- what they are trained on ---

std::vector<TokenId> SomeText(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(3 + random() % 500);
  return tokens;
}

at::Tensor ToTensor(const std::vector<TokenId>& tokens) {
  at::Tensor tensor = at::empty({1, static_cast<int64_t>(tokens.size())}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

class StoriesTeacher : public StoriesExits {
 protected:
  std::unique_ptr<StateRecorder> recorder_ = OrDie(
      StateRecorder::Load(*file_, Stories(), layers_, KernelsFor(BestIsa()), *pool_, nullptr));
};

TEST_F(StoriesTeacher, RecordsWhatTheModelComputes) {
  const TorchTransformer model = OrDie(TorchTransformer::Load(*file_, Stories(), at::kCPU));
  const std::vector<TokenId> text = SomeText(300, 1);  // longer than a chunk
  const auto count = static_cast<int64_t>(text.size());
  at::Tensor states[] = {at::empty({count, spec_.embedding_length}),
                         at::empty({count, spec_.embedding_length})};
  at::Tensor logits = at::empty({count, spec_.vocabulary_size});
  const auto span = [](at::Tensor& tensor) {
    return std::span(tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel()));
  };
  const std::vector<std::span<float>> hidden = {span(states[0]), span(states[1])};
  ASSERT_TRUE(recorder_->Read(text, hidden, span(logits)).ok());
  const TorchOutput expected = model.Forward(ToTensor(text), {.hidden_layers = layers_});
  // Keys and values are halves in the core's cache: 2^-11 each.
  EXPECT_LE(Distance(states[0], expected.hidden[0][0]), 1e-3);
  EXPECT_LE(Distance(states[1], expected.hidden[1][0]), 1e-3);
  EXPECT_LE(Distance(logits, expected.logits[0]), 1e-3);
}

TEST_F(StoriesTeacher, ReadsEveryTextByItselfAndKeepsTheRowsThatAsk) {
  const std::vector<TokenId> texts[] = {SomeText(20, 2), SomeText(12, 3)};
  TokenRows together(texts, 1, std::nullopt, 40, 1);
  ExitTeacher teacher(*recorder_, 2, nullptr, 4);
  const RowBatch batch = ReadRows(together, 0, 1);
  const ExitRows both = teacher.Read(batch);
  ASSERT_EQ(both.logits.size(0), 20 + 12);
  const int64_t first = batch.documents[0][0].item<int64_t>();
  for (const int64_t text : {first, 1 - first}) {
    TokenRows alone({&texts[text], 1}, 1, std::nullopt, 40, 1);
    const ExitRows one = teacher.Read(ReadRows(alone, 0, 1));
    const int64_t count = text == 0 ? 20 : 12;
    ASSERT_EQ(one.logits.size(0), count);
    const int64_t begin = text == first ? 0 : 32 - count;
    for (size_t exit : {0, 1}) {
      EXPECT_TRUE(at::equal(both.hidden[exit].narrow(0, begin, count), one.hidden[exit]));
    }
    EXPECT_TRUE(at::equal(both.logits.narrow(0, begin, count), one.logits));
  }
  EXPECT_TRUE(at::equal(both.candidates.select(1, 0), both.logits.argmax(-1)));
}

TEST_F(StoriesTeacher, TakesTheDraftsCandidates) {
  const TorchTransformer draft =
      OrDie(TorchTransformer::Load(*OrDie(ModelFile::Open(DamagedStories())), "damaged", at::kCPU));
  TokenRows rows({{SomeText(39, 4)}}, 1, std::nullopt, 40, 1);
  const RowBatch batch = ReadRows(rows, 0, 1);
  const ExitRows read = ExitTeacher(*recorder_, 2, &draft, 4).Read(batch);
  const at::Tensor drafted = draft.Forward(batch.tokens, {}).logits[0].narrow(0, 0, 39);
  EXPECT_TRUE(at::equal(read.candidates, std::get<1>(drafted.topk(4))));
}

// --- learning ---

TEST_F(StoriesTeacher, TrainedExitsComeNearerToTheTarget) {
  const FrozenHead head = OrDie(FrozenHead::Load(*file_, Stories(), at::kCPU));
  ExitAdapters adapters(spec_, layers_, 16, 1, at::kCPU);
  ExitTeacher teacher(*recorder_, 2, nullptr, 8);
  std::vector<std::vector<TokenId>> texts;
  for (uint32_t i = 0; i < 40; ++i) texts.push_back(SomeText(63, 10 + i));
  TokenRows rows({texts.data(), 36}, 1, std::nullopt, 64, 1);
  TokenRows held_out({texts.data() + 36, 4}, 1, std::nullopt, 64, 1);
  const std::vector<ExitScore> before = ScoreExits(adapters, head, teacher, held_out);

  TrainerOptions options;
  options.rows_per_step = 4;
  options.schedule = {.steps = 25, .warm_up_steps = 2, .peak = 5e-3, .floor = 5e-4};
  Trainer trainer(adapters.parameters(), at::kCPU, rows, ExitsLoss(adapters, head, teacher, {}),
                  options);
  for (uint64_t step = 0; step < options.schedule.steps; ++step) ASSERT_TRUE(trainer.Step().ok());

  const std::vector<ExitScore> after = ScoreExits(adapters, head, teacher, held_out);
  for (size_t exit : {0, 1}) {
    EXPECT_EQ(after[exit].layer, layers_[exit]);
    EXPECT_LE(after[exit].divergence, 0.7 * before[exit].divergence) << before[exit].divergence;
    EXPECT_GE(after[exit].match_rate, before[exit].match_rate);
  }
}

}  // namespace
}  // namespace outrider
