// Texts that a target writes side by side are those that it writes alone.
#include "adapters/generation/continuations.h"

#include <memory>
#include <random>

#include "common/engine/cpu_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

using ::testing::SizeIs;

using Texts = std::vector<std::vector<TokenId>>;

constexpr int32_t kVocabulary = 200;

class ContinuationsTest : public testing::Test {
 protected:
  ContinuationsTest() {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel("qwen3"), TensorType::kQ8_0, path_);
    std::mt19937 random(5);
    for (size_t length : {3, 20, 1, 7, 40, 2, 11}) {
      std::vector<TokenId>& prompt = prompts_.emplace_back(length);
      for (TokenId& token : prompt) token = static_cast<TokenId>(random() % kVocabulary);
    }
    options_.sampling = {.temperature = 0.8, .seed = 9};
    options_.token_count = 24;
  }

  std::unique_ptr<EngineTarget> Load(uint32_t sequence_count) {
    return OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_,
                               {.sequence_count_max = sequence_count}, KernelsFor(BestIsa()),
                               *pool_, nullptr));
  }

  ScratchDir dir_;
  std::string path_;
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  Texts prompts_;
  ContinuationOptions options_;
};

TEST_F(ContinuationsTest, AreTheSameAloneAndSideBySide) {
  const Texts alone = OrDie(ContinueTexts(*Load(1), prompts_, options_, nullptr));
  const Texts beside = OrDie(ContinueTexts(*Load(3), prompts_, options_, nullptr));
  EXPECT_EQ(alone, beside);
  for (size_t i = 0; i < prompts_.size(); ++i) {
    ASSERT_THAT(alone[i], SizeIs(prompts_[i].size() + 24));
    EXPECT_TRUE(std::equal(prompts_[i].begin(), prompts_[i].end(), alone[i].begin()));
  }
}

TEST_F(ContinuationsTest, OfTheSamePromptAreDifferentSamples) {
  const Texts prompts(2, prompts_[0]);
  const Texts texts = OrDie(ContinueTexts(*Load(2), prompts, options_, nullptr));
  EXPECT_NE(texts[0], texts[1]);
}

TEST_F(ContinuationsTest, EndBeforeTheirEnd) {
  const Texts whole = OrDie(ContinueTexts(*Load(3), prompts_, options_, nullptr));
  const TokenId end = whole[1][prompts_[1].size() + 10];
  options_.ends = {end};
  const Texts ended = OrDie(ContinueTexts(*Load(3), prompts_, options_, nullptr));
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const auto reply = whole[i].begin() + static_cast<ptrdiff_t>(prompts_[i].size());
    const auto stop = std::find(reply, whole[i].end(), end);
    EXPECT_EQ(ended[i], std::vector<TokenId>(whole[i].begin(), stop)) << "text " << i;
  }
  EXPECT_LE(ended[1].size(), prompts_[1].size() + 10);
}

TEST_F(ContinuationsTest, EndWithTheContext) {
  options_.token_count = 1000;
  const Texts texts = OrDie(ContinueTexts(*Load(2), {prompts_.data(), 2}, options_, nullptr));
  EXPECT_THAT(texts[0], SizeIs(160));
  EXPECT_THAT(texts[1], SizeIs(160));
}

TEST_F(ContinuationsTest, StopWhenTold) {
  uint32_t written = 0;
  const auto stopped = ContinueTexts(*Load(2), prompts_, options_, [&](uint32_t count) {
    written += count;
    return written < 30;
  });
  EXPECT_TRUE(absl::IsCancelled(stopped.status()));
  EXPECT_EQ(written, 30);
}

TEST_F(ContinuationsTest, RefuseAPromptWithoutRoom) {
  prompts_[2].assign(160, 1);
  const auto refused = ContinueTexts(*Load(2), prompts_, options_, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(refused.status().message(), HasSubstr("prompt 2 has 160 tokens"));
}

}  // namespace
}  // namespace outrider
