#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/training/adamw.h"
#include "adapters/training/checkpoint.h"
#include "adapters/training/loss_curve.h"
#include "adapters/training/schedule.h"
#include "adapters/training/trainer.h"
#include "adapters/training/training_run.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// --- AdamW and the schedule ---

// Two steps by hand: a number that decays and one that does not.
TEST(AdamW, StepsAreThoseOfThePaper) {
  const AdamWOptions options = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1};
  const double gradients[] = {0.5, -0.25};
  for (const bool matrix : {true, false}) {
    at::Tensor parameter = at::tensor({2.0f});
    if (matrix) parameter = parameter.view({1, 1});
    AdamWMoments moments = NoMoments(parameter);
    double p = 2, m = 0, v = 0;
    for (uint64_t t = 1; t <= 2; ++t) {
      const double g = gradients[t - 1], rate = 0.01 * static_cast<double>(t);
      m = 0.9 * m + 0.1 * g;
      v = 0.95 * v + 0.05 * g * g;
      const double m_hat = m / (1 - std::pow(0.9, t)), v_hat = v / (1 - std::pow(0.95, t));
      p = p - (matrix ? rate * 0.1 * p : 0) - rate * m_hat / (std::sqrt(v_hat) + 1e-8);
      AdamWStep(options, rate, t, at::full_like(parameter, g), moments, parameter);
      // Every operation rounds once to 2^-24; there are fewer than 16.
      EXPECT_NEAR(parameter.item<double>(), p, 16 * std::ldexp(2.0, -24)) << matrix << " " << t;
    }
  }
}

TEST(Schedule, RisesInALineAndFallsAlongACosine) {
  const Schedule schedule = {.steps = 100, .warm_up_steps = 10, .peak = 1.0, .floor = 0.1};
  EXPECT_NEAR(schedule.RateAt(0), 1.0 / 11, 1e-12);
  EXPECT_NEAR(schedule.RateAt(4) - schedule.RateAt(3), 1.0 / 11, 1e-12);
  EXPECT_NEAR(schedule.RateAt(10), 1.0, 1e-12);
  EXPECT_NEAR(schedule.RateAt(55), 0.55, 1e-12);
  EXPECT_NEAR(schedule.RateAt(99), 0.1, 1e-3);
  for (uint64_t step = 11; step < 100; ++step) {
    EXPECT_LT(schedule.RateAt(step), schedule.RateAt(step - 1));
  }
  EXPECT_NEAR((Schedule{.steps = 1, .warm_up_steps = 0, .peak = 1, .floor = 0.1}).RateAt(0), 1.0,
              1e-12);
}

// --- a tiny run ---

Hyperparameters TinyLlama() {
  Hyperparameters model;
  model.name = "tiny";
  model.context_length = 16;
  model.embedding_length = 32;
  model.block_count = 2;
  model.feed_forward_length = 64;
  model.vocabulary_size = 64;
  model.head_count = {2, 2};
  model.head_count_kv = {1, 1};
  model.key_length = model.value_length = 16;
  model.rope = {.style = RopeStyle::kInterleaved, .dimension_count = 16};
  model.tied_embeddings = true;
  return model;
}

// A text with a rule: from each token 3 x + 1, but for now and then another.
std::vector<std::vector<TokenId>> RuledDocuments() {
  std::vector<std::vector<TokenId>> documents(30);
  TokenId seed = 5;
  for (auto& document : documents) {
    TokenId x = seed++ % 60;
    for (int i = 0; i < 25; ++i) document.push_back(x = (3 * x + 1 + (i % 7 == 0)) % 61 + 3);
  }
  return documents;
}

constexpr uint64_t kSteps = 12;

TrainerOptions TinyOptions() {
  TrainerOptions options;
  options.schedule = {.steps = kSteps, .warm_up_steps = 2, .peak = 1e-2, .floor = 1e-3};
  options.rows_per_step = 140;  // three passes: of two sums the order would not show
  return options;
}

TorchTransformer TinyModel() {
  absl::StatusOr<TorchTransformer> model = TorchTransformer::Initialise(TinyLlama(), 7, at::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TokenRows TinyRows() {
  return TokenRows(RuledDocuments(), 1, 2, 16, 3);
}

struct Running {
  TorchTransformer model = TinyModel();
  TokenRows rows = TinyRows();
  std::unique_ptr<ThreadPool> pool;
  Trainer trainer;

  explicit Running(uint32_t thread_count = 1)
      : pool(std::move(ThreadPool::Create(thread_count)).value()),
        trainer(model.parameters(), at::kCPU, rows, LanguageLoss(model), Options()) {}

  TrainerOptions Options() const {
    TrainerOptions options = TinyOptions();
    options.pool = pool.get();
    return options;
  }

  void StepTo(uint64_t step) {
    while (trainer.state().step < step) {
      const absl::Status status = trainer.Step();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
};

void ExpectSameBits(const Running& a, const Running& b) {
  ASSERT_EQ(a.model.parameters().size(), b.model.parameters().size());
  for (size_t i = 0; i < a.model.parameters().size(); ++i) {
    const std::string& name = a.model.parameters()[i].name;
    EXPECT_TRUE(at::equal(a.model.parameters()[i].value, b.model.parameters()[i].value)) << name;
    const AdamWMoments& x = a.trainer.state().moments[i];
    const AdamWMoments& y = b.trainer.state().moments[i];
    EXPECT_TRUE(at::equal(x.first, y.first) && at::equal(x.second, y.second)) << name;
  }
  EXPECT_EQ(a.trainer.state().step, b.trainer.state().step);
  EXPECT_EQ(a.trainer.state().losses, b.trainer.state().losses);
  EXPECT_EQ(a.trainer.state().gradient_norms, b.trainer.state().gradient_norms);
  EXPECT_EQ(a.trainer.state().validations, b.trainer.state().validations);
}

TEST(Trainer, LearnsARule) {
  Running run;
  run.StepTo(kSteps);
  const std::vector<float>& losses = run.trainer.state().losses;
  ASSERT_EQ(losses.size(), kSteps);
  EXPECT_NEAR(losses[0], std::log(64.0), 0.1);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

// On one thread, on two, and on more than there are passes.
TEST(Trainer, StepsHaveTheSameBitsOnAnyNumberOfThreads) {
  Running one;
  one.StepTo(5);
  for (const uint32_t thread_count : {2, 4}) {
    Running several(thread_count);
    several.StepTo(5);
    ExpectSameBits(one, several);
  }
}

TEST(Trainer, APassThatFailsOnAThreadSpoilsNothing) {
  Running run(2);
  run.StepTo(2);
  Running other;
  other.StepTo(2);
  TokenRows rows = TinyRows();
  std::atomic<int> passes = 0;
  Trainer broken(
      run.model.parameters(), at::kCPU, rows,
      [&passes, loss = LanguageLoss(run.model)](const RowBatch& batch) {
        TORCH_CHECK(++passes != 2, "the second pass is lost");
        return loss(batch);
      },
      run.Options());
  const absl::Status status = broken.Step();
  EXPECT_THAT(std::string(Message(status)), HasSubstr("the second pass is lost"));
  EXPECT_EQ(passes, 3);
  ExpectSameBits(run, other);
}

// Gradients of passes add up to those of the step: what one pass over all rows would say.
TEST(Trainer, AStepIsTheMeanOverItsTargets) {
  Running run;
  run.StepTo(1);
  TokenRows rows = TinyRows();
  TorchTransformer model = TinyModel();
  const int64_t count = TinyOptions().rows_per_step, length = 16;
  RowBatch batch{at::empty({count, length}, at::kLong), at::empty({count, length}, at::kLong),
                 at::empty({count, length}, at::kLong)};
  for (int64_t row = 0; row < count; ++row) {
    const auto part = [&](at::Tensor& tensor) {
      return std::span(tensor.data_ptr<int64_t>() + row * length, static_cast<size_t>(length));
    };
    rows.Get(static_cast<uint64_t>(row), part(batch.tokens), part(batch.targets),
             part(batch.documents));
  }
  for (NamedParameter& parameter : model.parameters()) parameter.value.requires_grad_(true);
  const double targets = batch.targets.ne(TokenRows::kNoTarget).sum().item<double>();
  const at::Tensor loss = LanguageLoss(model)(batch).div(targets);
  loss.backward();
  double squares = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    squares += std::pow(parameter.value.grad().norm().item<double>(), 2);
  }
  EXPECT_NEAR(run.trainer.state().losses[0], loss.item<double>(), 1e-5);
  EXPECT_NEAR(run.trainer.state().gradient_norms[0], std::sqrt(squares), 1e-4);
}

// At a temperature of nearly nothing Adam would not show it; plain sums of squares do.
TEST(Trainer, ClippedGradientsAreNoLongerThanAsked) {
  for (const double longest : {1e-3, 1e3}) {
    TorchTransformer model = TinyModel();
    TokenRows rows = TinyRows();
    TrainerOptions options = TinyOptions();
    options.gradient_norm_max = longest;
    Trainer trainer(model.parameters(), at::kCPU, rows, LanguageLoss(model), options);
    ASSERT_TRUE(trainer.Step().ok());
    double squares = 0;  // the first moments are a tenth of the gradients after one step
    for (const AdamWMoments& moments : trainer.state().moments) {
      squares += std::pow(moments.first.norm().item<double>() / 0.1, 2);
    }
    const double expected = std::min<double>(longest, trainer.state().gradient_norms[0]);
    EXPECT_NEAR(std::sqrt(squares), expected, 1e-4 * expected);
  }
}

TEST(Trainer, ALossThatIsNoNumberEndsTheRunAndSpoilsNothing) {
  Running run;
  run.StepTo(2);
  Running other;
  other.StepTo(2);
  TokenRows rows = TinyRows();
  Trainer broken(
      run.model.parameters(), at::kCPU, rows,
      [loss = LanguageLoss(run.model)](const RowBatch& batch) {
        return loss(batch) * std::nan("");
      },
      TinyOptions());
  const absl::Status status = broken.Step();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("lower --learning-rate"));
  ExpectSameBits(run, other);
}

TEST(Trainer, Bfloat16ProductsLearnTheSameToTheirPrecision) {
  TrainerOptions options = TinyOptions();
  options.bfloat16_products = true;
  TorchTransformer model = TinyModel();
  TokenRows rows = TinyRows();
  Trainer trainer(model.parameters(), at::kCPU, rows, LanguageLoss(model), options);
  Running exact;
  exact.StepTo(4);
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(trainer.Step().ok());
  for (size_t step = 0; step < 4; ++step) {
    // Eight bits of each factor, errors of many added up: a hundredth of a nat.
    EXPECT_NEAR(trainer.state().losses[step], exact.trainer.state().losses[step], 0.02);
  }
  EXPECT_NE(trainer.state().losses, exact.trainer.state().losses);
}

// --- checkpoints ---

const std::vector<std::string> kRun = {"text: 1", "steps: 12"};

TEST(Checkpoint, ARunThatWentOnIsARunThatNeverStopped) {
  const ScratchDir dir;
  const std::string path = dir.File("run.checkpoint");
  Running straight;
  straight.StepTo(kSteps);
  straight.trainer.mutable_state().validations = {{5, 1.5f}};
  {
    Running first;
    first.StepTo(5);
    first.trainer.mutable_state().validations = {{5, 1.5f}};
    ASSERT_TRUE(SaveCheckpoint(path, kRun, first.model.parameters(), first.trainer.state()).ok());
  }
  Running second;
  const absl::Status loaded =
      LoadCheckpoint(path, kRun, second.model.parameters(), second.trainer.mutable_state());
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(second.trainer.state().step, 5u);
  second.StepTo(kSteps);
  ExpectSameBits(straight, second);
}

class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() {
    run_.StepTo(1);
    EXPECT_TRUE(SaveCheckpoint(path_, kRun, run_.model.parameters(), run_.trainer.state()).ok());
  }

  std::string Complaint(std::span<const std::string> run = kRun) {
    Running fresh;
    return std::string(Message(
        LoadCheckpoint(path_, run, fresh.model.parameters(), fresh.trainer.mutable_state())));
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("run.checkpoint");
  Running run_;
};

TEST_F(BadCheckpoint, AnotherRunsIsRefusedByName) {
  EXPECT_EQ(Complaint(), "");
  EXPECT_THAT(Complaint(std::vector<std::string>{"text: 1", "steps: 13"}),
              HasSubstr("another run (steps: 12; now steps: 13)"));
  EXPECT_THAT(Complaint(std::vector<std::string>{"text: 1"}), HasSubstr("now nothing"));
}

TEST_F(BadCheckpoint, NoDamagePasses) {
  const std::string whole = ReadFile(path_);
  for (const size_t length : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    dir_.Write("run.checkpoint", std::string_view(whole).substr(0, length));
    EXPECT_THAT(Complaint(), StartsWith(path_)) << length;
  }
  for (size_t at = 0; at < whole.size(); at += whole.size() / 150 + 1) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    dir_.Write("run.checkpoint", damaged);
    const bool padding = whole[at] == 0 && Complaint().empty();
    EXPECT_TRUE(padding || !Complaint().empty()) << at;
  }
}

// A disk that is full looks like this to a program: it may write so much and no more.
TEST_F(BadCheckpoint, TheLastOneStaysWhenTheDiskIsFull) {
  const std::string whole = ReadFile(path_);
  run_.StepTo(2);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {whole.size() / 2, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status =
      SaveCheckpoint(path_, kRun, run_.model.parameters(), run_.trainer.state());
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(Message(status)), HasSubstr("run.checkpoint"));
  EXPECT_EQ(ReadFile(path_), whole);
  EXPECT_EQ(dir_.Names(), std::set<std::string>{"run.checkpoint"});
}

// --- what a run leaves behind ---

TEST(LossCurve, TableAndPictureTellEveryStep) {
  TrainingState state;
  state.step = 3;
  state.losses = {4.0f, 3.0f, 2.5f};
  state.gradient_norms = {1.0f, 0.5f, 0.25f};
  state.validations = {{2, 3.25f}};
  const Schedule schedule = {.steps = 3, .warm_up_steps = 0, .peak = 1e-3, .floor = 1e-4};
  EXPECT_EQ(LossTable(state, schedule, 100),
            "step,tokens,learning_rate,loss,gradient_norm,validation_loss\n"
            "1,100,0.00100000,4.00000,1.0000,\n"
            "2,200,0.00077500,3.00000,0.5000,3.25000\n"
            "3,300,0.00032500,2.50000,0.2500,\n");
  const std::string picture = LossPicture(state, 100, "Loss of a & b");
  EXPECT_THAT(picture, HasSubstr("Loss of a &amp; b"));
  EXPECT_THAT(picture, HasSubstr("3 steps of 100 tokens"));
  EXPECT_THAT(picture, HasSubstr(">training</text>"));
  EXPECT_THAT(picture, HasSubstr(">validation</text>"));
  EXPECT_THAT(LossPicture(TrainingState(), 100, "nothing"), HasSubstr("0 steps"));
}

TEST(TrainingRun, LeavesACheckpointAndGoesOnFromIt) {
  const ScratchDir dir;
  TrainingRun run{dir.File("m.gguf"), kRun, TinyOptions()};
  TorchTransformer model = TinyModel();
  TokenRows rows = TinyRows(), validation = TinyRows();
  ASSERT_TRUE(
      Train(run, model.parameters(), at::kCPU, rows, &validation, LanguageLoss(model)).ok());
  EXPECT_EQ(dir.Names(), (std::set<std::string>{"m.csv", "m.gguf.checkpoint", "m.svg"}));
  EXPECT_EQ(std::ranges::count(ReadFile(dir.File("m.csv")), '\n'), 1 + static_cast<int>(kSteps));
  // All steps are done: the model is that of the checkpoint, bit for bit.
  TorchTransformer again = TinyModel();
  ASSERT_TRUE(
      Train(run, again.parameters(), at::kCPU, rows, &validation, LanguageLoss(again)).ok());
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(model.parameters()[i].value, again.parameters()[i].value));
  }
  RemoveCheckpoint(run.out);
  EXPECT_EQ(dir.Names(), (std::set<std::string>{"m.csv", "m.svg"}));
}

}  // namespace
}  // namespace outrider
