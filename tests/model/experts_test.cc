// Who is asked, how much of it counts, and what is read for it.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/model/layers/expert_feed_forward.h"
#include "common/model/weights/load_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ExpertChoice> Choose(const RouterSpec& router, std::vector<float> logits) {
  const ScopedIeeeMode ieee;
  std::vector<ExpertChoice> choices(router.used_count);
  ChooseExperts(router, KernelsFor(BestIsa()).rows, logits.data(), choices);
  return choices;
}

std::vector<uint32_t> IdsOf(const std::vector<ExpertChoice>& choices) {
  std::vector<uint32_t> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, BestFirstAndOfEqualOnesTheLowest) {
  const RouterSpec router{.expert_count = 6, .used_count = 3, .renormalize = true};
  EXPECT_THAT(IdsOf(Choose(router, {1, 5, 2, 5, 0, 4})), ElementsAre(1, 3, 5));
  EXPECT_THAT(IdsOf(Choose(router, {2, 2, 2, 2, 2, 2})), ElementsAre(0, 1, 2));
  EXPECT_THAT(IdsOf(Choose(router, {-9, -8, -7, -7, -8, -9})), ElementsAre(2, 3, 1));
}

TEST(ChooseExperts, WeightsAreTheSoftmaxOverAllDividedByTheirSumWhereTheRouterSaysSo) {
  const std::vector<float> logits = {0.5f, -1.25f, 3.0f, 2.5f, 0.0f};
  double all = 0;
  for (const float logit : logits) all += std::exp(double{logit});
  const double best = std::exp(3.0), second = std::exp(2.5);
  RouterSpec router{.expert_count = 5, .used_count = 2, .renormalize = false};
  const std::vector<ExpertChoice> plain = Choose(router, logits);
  EXPECT_NEAR(plain[0].weight, best / all, 1e-6);
  EXPECT_NEAR(plain[1].weight, second / all, 1e-6);
  router.renormalize = true;
  const std::vector<ExpertChoice> renormalized = Choose(router, logits);
  EXPECT_NEAR(renormalized[0].weight, best / (best + second), 1e-6);
  EXPECT_NEAR(renormalized[1].weight, second / (best + second), 1e-6);
}

// So that the row's logits are refused, and nobody reads past an end meanwhile.
TEST(ChooseExperts, WhatIsNoNumberSpoilsTheWeights) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RouterSpec router{.expert_count = 4, .used_count = 2, .renormalize = true};
  for (size_t at = 0; at < 4; ++at) {
    std::vector<float> logits = {1, 2, 3, 4};
    logits[at] = nan;
    const std::vector<ExpertChoice> choices = Choose(router, logits);
    EXPECT_NE(choices[0].expert, choices[1].expert);
    for (const ExpertChoice& choice : choices) {
      EXPECT_LT(choice.expert, 4u);
      EXPECT_TRUE(std::isnan(choice.weight)) << at;
    }
  }
}

// Counts what is leased, in bytes that a store has to have for it.
class CountingStore final : public WrappedStore {
 public:
  CountingStore(WeightStore& store, const ModelFile& model, const ModelSpec& spec)
      : WrappedStore(store), planner_(model, spec) {}

  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    bytes += planner_.Head().slot_bytes;
    return store_.Acquire(key);
  }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    bytes += planner_.Layer(key.layer).slot_bytes;
    return store_.Acquire(key);
  }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    bytes += planner_.Expert(key.layer, key.expert).slot_bytes;
    EXPECT_TRUE(leased.insert({key.layer, key.expert}).second) << "once a run";
    return store_.Acquire(key);
  }

  uint64_t bytes = 0;
  std::set<std::pair<uint32_t, uint32_t>> leased;

 private:
  const LoadPlanner planner_;
};

class ExpertsTest : public testing::TestWithParam<std::string> {
 protected:
  ExpertsTest() {
    WriteRandomModel(SmallModel(GetParam()), TensorType::kQ8_0, path_);
    model_ = OrDie(ModelFile::Open(path_));
    spec_ = OrDie(ModelSpec::From(*model_, path_));
  }

  LoadedModelOptions Counting() {
    return {.wrap_weights = [this](WeightStore& weights) {
      auto counting = std::make_unique<CountingStore>(weights, *model_, spec_);
      store_ = counting.get();
      return counting;
    }};
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  std::unique_ptr<ModelFile> model_;
  ModelSpec spec_;
  CountingStore* store_ = nullptr;
};

// What the file has for one token's way to its logits: all but the experts it does not go to, and the
// table of which it is one row.
uint64_t BytesOfOneToken(const ModelFile& model) {
  const Experts& experts = model.hyperparameters().experts;
  uint64_t bytes = 0;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.name == "token_embd.weight") continue;
    const bool is_experts = tensor.name.find("_exps.") != std::string::npos;
    bytes += is_experts ? tensor.bytes / experts.count * experts.used_count : tensor.bytes;
  }
  return bytes;
}

TEST_P(ExpertsTest, OneTokenReadsTheExpertsItGoesToAndNoOthers) {
  LoadedModel engine(path_, Counting());
  const uint64_t needed = BytesOfOneToken(*model_);
  const auto sequence = engine.NewSequence();
  for (const TokenId token : {7, 70, 150}) {
    store_->bytes = 0;
    store_->leased.clear();
    engine.Read(*sequence, {&token, 1});
    EXPECT_EQ(store_->leased.size(),
              size_t{model_->hyperparameters().experts.used_count} * engine.spec.layer_count());
    EXPECT_GE(store_->bytes, needed);
    EXPECT_LE(store_->bytes, needed * 1.1);
  }
}

TEST_P(ExpertsTest, RowsThatAgreeReadAnExpertOnce) {
  LoadedModel engine(path_, Counting());
  const auto sequence = engine.NewSequence();
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < 40; ++token) tokens.push_back(token * 5);
  engine.Read(*sequence, tokens);  // CountingStore objects to a second time
  EXPECT_LE(store_->leased.size(),
            size_t{engine.spec.layers[0].feed_forward.router->expert_count} * 2);
}

// Lends so many experts at once, and no more.
class ScantStore final : public WrappedStore {
 public:
  ScantStore(WeightStore& store, uint32_t leases_max)
      : WrappedStore(store), leases_max_(leases_max) {}

  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    EXPECT_LT(leases_, leases_max_);
    ++leases_;
    return Lease<FeedForwardWeights>(*this, key, *OrDie(store_.Acquire(key)));
  }
  uint32_t expert_leases_max() const override { return leases_max_; }

 private:
  void Release(const WeightKey&) override { --leases_; }

  const uint32_t leases_max_;
  uint32_t leases_ = 0;  // at present
};

std::vector<TokenId> SomeTokens(TokenId count) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < count; ++i) tokens.push_back(i * 37 % 199);
  return tokens;
}

TEST_P(ExpertsTest, HowManyAreLentAtOnceTouchesNoBit) {
  const std::vector<TokenId> tokens = SomeTokens(20);
  LoadedModel plenty(path_);
  const auto expected = plenty.Read(*plenty.NewSequence(), tokens);
  for (const uint32_t leases_max : {1, 2, 5}) {
    LoadedModel scant(path_, {.wrap_weights = [&](WeightStore& weights) {
                        return std::make_unique<ScantStore>(weights, leases_max);
                      }});
    EXPECT_EQ(scant.Read(*scant.NewSequence(), tokens), expected) << leases_max;
  }
}

// More than are asked in one band: 320 choices and up, where a band is of 256 rows.
TEST_P(ExpertsTest, ALongPromptGivesTheBitsOfItsTokensOneByOne) {
  const std::vector<TokenId> tokens = SomeTokens(160);
  LoadedModel together(path_, {.row_count_max = 160}), alone(path_);
  const auto logits = together.Read(*together.NewSequence(), tokens);
  const auto sequence = alone.NewSequence();
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(alone.Read(*sequence, {&tokens[i], 1})[0], logits[i]) << i;
  }
}

TEST_P(ExpertsTest, NothingAllocatesPerRun) {
  LoadedModel engine(path_, {.thread_count = 1});
  const auto sequence = engine.NewSequence();
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9};
  OUTRIDER_CHECK_OK(sequence->Reserve(6, 0));
  engine.batch.Clear();
  engine.batch.AddChain(*sequence, tokens);
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 3; ++i) OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  EXPECT_EQ(AllocationCount(), before);
}

// As files of before 2024 have them: every expert's matrices in tensors of their own.
void WriteUnstacked(const ModelFile& model, const std::string& path) {
  GgufWriter writer;
  OUTRIDER_CHECK_OK(model.AddMetadata(writer));
  const auto stem_of = [](const std::string& name) { return name.substr(0, name.find("_exps")); };
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.dims.size() < 3) {
      OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
      continue;
    }
    for (uint64_t e = 0; e < tensor.dims[2]; ++e) {
      OUTRIDER_CHECK_OK(writer.AddTensor(Concat(stem_of(tensor.name), ".", e, ".weight"),
                                         tensor.type, std::span(tensor.dims).first(2)));
    }
  }
  OUTRIDER_CHECK_OK(writer.Begin(path));
  for (const ModelTensor& tensor : model.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    OUTRIDER_CHECK_OK(model.ReadRows(tensor, 0, tensor.row_count(), bytes));
    OUTRIDER_CHECK_OK(writer.Write(bytes));
  }
  OUTRIDER_CHECK_OK(writer.Commit());
}

TEST_P(ExpertsTest, AreTheSameInTensorsOfTheirOwn) {
  const std::string unstacked = dir_.File("unstacked.gguf");
  LoadedModel stacked(path_);
  WriteUnstacked(*stacked.model, unstacked);
  LoadedModel apart(unstacked);
  const std::vector<TokenId> tokens = {3, 141, 59, 26, 53, 58, 97};
  const auto a = stacked.NewSequence(), b = apart.NewSequence();
  EXPECT_EQ(apart.Read(*b, tokens), stacked.Read(*a, tokens));
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertsTest, testing::Values("mixtral", "qwen3moe", "olmoe"),
                         [](const auto& test) { return test.param; });

absl::Status OpenChanged(const Hyperparameters& says, const Hyperparameters& has,
                         const std::string& path) {
  // The tensors of one model under the numbers of another.
  WriteRandomModel(has, TensorType::kQ8_0, path + ".has");
  const std::unique_ptr<ModelFile> model = OrDie(ModelFile::Open(path + ".has"));
  GgufWriter writer;
  AddHyperparameterMetadata(says, writer);
  for (const ModelTensor& tensor : model->tensors()) {
    OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
  }
  OUTRIDER_CHECK_OK(writer.Begin(path));
  for (const ModelTensor& tensor : model->tensors()) {
    OUTRIDER_CHECK_OK(writer.Write(std::vector<std::byte>(tensor.bytes)));
  }
  OUTRIDER_CHECK_OK(writer.Commit());
  return ModelFile::Open(path).status();
}

TEST(ExpertCounts, ThatDoNotFitAreRefusedByName) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  const Hyperparameters has = SmallModel("mixtral");
  Hyperparameters says = has;
  says.experts.used_count = 9;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": llama.expert_used_count is 9, more than llama.expert_count, 5");
  says = has;
  says.experts.count = 7;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": tensor blk.0.ffn_gate_inp.weight is [256, 5], expected [256, 7]");
  says = has;
  says.experts.feed_forward_length = says.feed_forward_length = 512;
  EXPECT_EQ(Message(OpenChanged(says, has, path)),
            path + ": tensor blk.0.ffn_gate_exps.weight is [256, 256, 5], expected [256, 512, 5]");
}

}  // namespace
}  // namespace outrider
