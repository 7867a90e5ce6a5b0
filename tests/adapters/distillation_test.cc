#include "adapters/training/distillation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/generation/texts_file.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using Texts = std::vector<std::vector<TokenId>>;

TorchTransformer Tiny(uint32_t embedding, uint32_t layers, uint64_t seed) {
  Hyperparameters model;
  model.name = "tiny";
  model.context_length = 16;
  model.embedding_length = embedding;
  model.block_count = layers;
  model.feed_forward_length = 64;
  model.vocabulary_size = 40;
  model.head_count.assign(layers, 2);
  model.head_count_kv.assign(layers, 2);
  model.key_length = model.value_length = embedding / 2;
  model.rope = {.style = RopeStyle::kInterleaved, .dimension_count = embedding / 2};
  model.tied_embeddings = true;
  absl::StatusOr<TorchTransformer> made = TorchTransformer::Initialise(model, seed, at::kCPU);
  EXPECT_TRUE(made.ok()) << made.status();
  // Large enough weights for distributions that are not flat.
  const at::NoGradGuard no_grad;
  for (NamedParameter& parameter : made->parameters()) {
    if (parameter.value.dim() == 2) parameter.value.mul_(6);
  }
  return *std::move(made);
}

TokenRows Rows() {
  Texts texts(12);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t k = 0; k < 5 + i; ++k) {
      texts[i].push_back(static_cast<TokenId>(3 + (i * 7 + k * k) % 37));
    }
  }
  return TokenRows(texts, std::nullopt, 2, 16, 1);
}

// By its definition, from the logits of both, in double precision.
double Divergence(const TorchTransformer& draft, const TorchTransformer& target,
                  const RowBatch& batch, double temperature) {
  const at::NoGradGuard no_grad;
  TorchForwardOptions options;
  options.documents = batch.documents;
  const at::Tensor p = target.Forward(batch.tokens, options).logits.to(at::kDouble);
  const at::Tensor q = draft.Forward(batch.tokens, options).logits.to(at::kDouble);
  double sum = 0;
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    for (int64_t t = 0; t < batch.tokens.size(1); ++t) {
      if (batch.targets[row][t].item<int64_t>() == TokenRows::kNoTarget) continue;
      const auto probabilities = [&](const at::Tensor& logits) {
        std::vector<double> values(40);
        double total = 0;
        for (int64_t v = 0; v < 40; ++v) {
          total += values[static_cast<size_t>(v)] =
              std::exp(logits[row][t][v].item<double>() / temperature);
        }
        for (double& value : values) value /= total;
        return values;
      };
      const std::vector<double> wanted = probabilities(p), said = probabilities(q);
      for (size_t v = 0; v < 40; ++v) sum += wanted[v] * std::log(wanted[v] / said[v]);
    }
  }
  return sum;
}

TEST(Distillation, TheLossIsTheDivergenceFromTheTarget) {
  const TorchTransformer target = Tiny(32, 2, 1), draft = Tiny(16, 1, 2);
  TokenRows rows = Rows();
  const RowBatch batch = ReadRows(rows, 0, rows.row_count());
  for (const double temperature : {1.0, 0.6}) {
    const double expected = Divergence(draft, target, batch, temperature);
    const double backwards = Divergence(target, draft, batch, temperature);
    ASSERT_GT(std::abs(expected - backwards), 0.01 * expected);  // a mistaken direction would show
    const Loss loss = DistillationLoss(draft, target, temperature);
    EXPECT_NEAR(loss(batch).item<double>(), expected, 1e-4 * expected);
    const Loss own_loss = DistillationLoss(target, target, temperature);
    EXPECT_NEAR(own_loss(batch).item<double>(), 0, 1e-4);
  }
}

// What was kept of a row is that row's, whatever it stood beside, and has the bits it had.
TEST(Distillation, KeepsWhatTheTargetSaysOfARow) {
  TorchTransformer target = Tiny(32, 2, 1);
  const TorchTransformer draft = Tiny(16, 1, 2);
  TokenRows rows = Rows();
  ASSERT_GE(rows.row_count(), 4u);
  const Loss loss = DistillationLoss(draft, target, 0.8);
  const auto of_pair = [&](const Loss& asked, uint64_t first) {
    return asked(ReadRows(rows, first, 2)).item<float>();
  };
  EXPECT_NE(of_pair(loss, 0), of_pair(loss, 2));
  const float crossed = of_pair(loss, 1);  // of rows that came in different pairs
  EXPECT_EQ(crossed, of_pair(DistillationLoss(draft, target, 0.8), 1));
  {
    const at::NoGradGuard no_grad;  // and it is kept: the layers are not asked again
    for (NamedParameter& parameter : target.parameters()) {
      if (parameter.name == "blk.0.attn_v.weight") parameter.value.mul_(-1);
    }
  }
  EXPECT_EQ(of_pair(loss, 1), crossed);
  EXPECT_NE(of_pair(DistillationLoss(draft, target, 0.8), 1), crossed);
}

TEST(Distillation, ADraftComesNearerToItsTargetAndTheTargetStays) {
  const TorchTransformer target = Tiny(32, 2, 1);
  TorchTransformer draft = Tiny(16, 2, 2);
  const at::Tensor before = target.parameters()[0].value.clone();
  TokenRows rows = Rows(), again = Rows();
  TrainerOptions options;
  options.schedule = {.steps = 60, .warm_up_steps = 2, .peak = 2e-2, .floor = 2e-3};
  options.rows_per_step = static_cast<uint32_t>(rows.row_count());
  const double agreed_before = *FirstChoiceAgreement(draft, target, again);
  Trainer trainer(draft.parameters(), at::kCPU, rows, DistillationLoss(draft, target, 1), options);
  while (trainer.state().step < options.schedule.steps) {
    const absl::Status status = trainer.Step();
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_LT(trainer.state().losses.back(), 0.2 * trainer.state().losses.front());
  EXPECT_GT(*FirstChoiceAgreement(draft, target, again), agreed_before + 0.3);
  EXPECT_EQ(*FirstChoiceAgreement(target, target, again), 1);
  EXPECT_TRUE(before.equal(target.parameters()[0].value));
}

TEST(TextsFile, KeepsWhatWasWrittenForThoseWhoAskTheSame) {
  const ScratchDir dir;
  const std::string path = dir.File("d.texts");
  const Texts texts = {{1, 2, 3}, {}, {5}};
  const std::vector<std::string> asked = {"target: 1", "seed: 2"};
  EXPECT_EQ(*ReadTexts(path, asked), std::nullopt);
  ASSERT_TRUE(WriteTexts(path, asked, texts).ok());
  EXPECT_EQ(*ReadTexts(path, asked), texts);
  EXPECT_EQ(*ReadTexts(path, std::vector<std::string>{"target: 1", "seed: 3"}), std::nullopt);
  const std::string whole = ReadFile(path);
  dir.Write("d.texts", std::string_view(whole).substr(0, whole.size() / 2));
  EXPECT_FALSE(ReadTexts(path, asked).ok());
}

}  // namespace
}  // namespace outrider
