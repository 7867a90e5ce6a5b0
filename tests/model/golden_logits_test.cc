// Logits and greedy text against transformers. The expected values are made by
// tests/golden/logits.py, which says what is in the files.
#include "tests/model/golden_logits.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/formats/models/convert.h"
#include "common/model/numerics_id.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

class GoldenLogits : public testing::TestWithParam<GoldenModel> {
 protected:
  static LoadedModelOptions Options() {
    return {.context_length_max = GetParam().context_length_max};
  }
};

TEST_P(GoldenLogits, AreThoseOfTransformers) {
  const Golden golden = ReadGolden(GetParam().name);
  LoadedModel engine(TestFile(GetParam().directory), Options());
  const auto sequence = engine.NewSequence();
  const std::vector<std::vector<float>> logits = engine.Read(*sequence, golden.tokens);
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    SCOPED_TRACE(golden.positions[i]);
    ASSERT_EQ(logits[golden.positions[i]].size(), golden.exact[i].size());
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.halves[i]), GetParam().tolerance);
    // Eleven significant bits of keys and values are all that sets us apart from the exact ones.
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.exact[i]), 2e-3);
  }
}

TEST_P(GoldenLogits, GiveTheSameGreedyText) {
  const Golden golden = ReadGolden(GetParam().name);
  LoadedModel engine(TestFile(GetParam().directory), Options());
  const auto sequence = engine.NewSequence();
  std::vector<TokenId> text = {golden.greedy[0]};
  while (text.size() < golden.greedy.size()) {
    const std::vector<float> logits = engine.Read(*sequence, {&text.back(), 1})[0];
    text.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(text, golden.greedy);
}

// A directory and the GGUF file that is made of it are the same model: its bits, and its id.
void ExpectTheSameBitsFromAConvertedFile(const GoldenModel& model) {
  const Golden golden = ReadGolden(model.name);
  const LoadedModelOptions options = {.context_length_max = model.context_length_max};
  LoadedModel directory(TestFile(model.directory), options);
  const ScratchDir scratch;
  const std::string path = scratch.File("converted.gguf");
  OUTRIDER_CHECK_OK(Convert(*directory.model, path, {}, [](uint64_t, std::string_view) {}));
  LoadedModel file(path, options);
  const auto a = directory.NewSequence(), b = file.NewSequence();
  EXPECT_EQ(directory.Read(*a, golden.tokens), file.Read(*b, golden.tokens));
  const auto id = [](const LoadedModel& loaded) {
    return NumericsId::Of(loaded.spec, loaded.weights->content_hash(), "cpu", "f16");
  };
  EXPECT_EQ(id(directory), id(file));
}

TEST_P(GoldenLogits, HaveTheSameBitsFromAConvertedFile) {
  ExpectTheSameBitsFromAConvertedFile(GetParam());
}

TEST(PackedGoldenLogits, HaveTheSameBitsFromAConvertedFile) {
  ExpectTheSameBitsFromAConvertedFile(kPackedModel);
}

// Eight bits of activations are a hundredth of the logits, and more where they tip a router's choice,
// as they do at one of these positions.
TEST(PackedGoldenLogits, AreNearThoseOfTransformers) {
  const Golden golden = ReadGolden(kPackedModel.name);
  LoadedModel engine(TestFile(kPackedModel.directory));
  const auto sequence = engine.NewSequence();
  const std::vector<std::vector<float>> logits = engine.Read(*sequence, golden.tokens);
  int near = 0;
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    if (Distance(logits[golden.positions[i]], golden.halves[i]) <= 0.02) ++near;
  }
  EXPECT_GE(near, 5) << "of 7";
}

// Writes down who is asked for next: the experts of the rows of a run.
class ListeningStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;

  void Prefetch(std::span<const WeightKey> keys) override {
    std::vector<uint32_t>& experts = asked.emplace_back();
    for (const WeightKey& key : keys) experts.push_back(std::get<ExpertKey>(key).expert);
  }

  std::vector<std::vector<uint32_t>> asked;  // by layer that has experts, since last cleared
};

TEST_P(GoldenLogits, SendEveryTokenToTheSameExperts) {
  const Golden golden = ReadGolden(GetParam().name);
  ListeningStore* store = nullptr;
  LoadedModel engine(TestFile(GetParam().directory),
                     {.context_length_max = GetParam().context_length_max,
                      .wrap_weights = [&](WeightStore& weights) {
                        auto listening = std::make_unique<ListeningStore>(weights);
                        store = listening.get();
                        return listening;
                      }});
  const auto sequence = engine.NewSequence();
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    SCOPED_TRACE(i);
    store->asked.clear();
    engine.Read(*sequence, {&golden.tokens[i], 1});
    ASSERT_EQ(store->asked.size(), golden.routing.size());
    for (size_t layer = 0; layer < golden.routing.size(); ++layer) {
      EXPECT_EQ(store->asked[layer], golden.routing[layer][i]) << "layer " << layer;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogits, testing::ValuesIn(kGoldenModels),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace outrider
