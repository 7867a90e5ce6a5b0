// What choosers say by lists of few logits is what they say by all of them.
#include "common/cuda/gpu_shortlists.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/cuda/testing/emulated_queue.h"
#include "gtest/gtest.h"
#include "tests/kernels/paged_keys.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

constexpr uint32_t kVocabulary = 3000;
constexpr uint32_t kRows = 24;

// Rows on a device, and here.
class GpuShortlistsTest : public testing::Test {
 protected:
  GpuShortlistsTest() {
    for (uint32_t row = 0; row < kRows; ++row) {
      rows_.push_back(Numbers(row).Gaussians(kVocabulary, row % 3 == 0 ? 0.1f : 4.0f));
    }
    const std::vector<TokenId> known = {1, 2, 3};
    OUTRIDER_CHECK_OK(history_.Append(known));
  }

  std::span<const Shortlist> Find(std::span<const Wish> wishes) {
    buffer_ = OrDie(DeviceBuffer::Create(queue_, kRows * kVocabulary * sizeof(float), "logits"));
    for (uint32_t row = 0; row < kRows; ++row) {
      queue_.Upload(buffer_.data() + row * kVocabulary * sizeof(float), rows_[row].data(),
                    kVocabulary * sizeof(float));
    }
    return OrDie(lists_->Find(buffer_.As<float>(), wishes));
  }

  EmulatedQueue queue_;
  DeviceBuffer buffer_;
  const std::unique_ptr<GpuShortlists> lists_ =
      OrDie(GpuShortlists::Create(queue_, kRows, kVocabulary, "a test's lists"));
  std::vector<std::vector<float>> rows_;
  TokenHistory history_{{.vocabulary_size = kVocabulary, .capacity = 8}};
};

bool SameRanking(const std::vector<Ranked>& a, const std::vector<Ranked>& b) {
  return std::ranges::equal(a, b, [](const Ranked& x, const Ranked& y) {
    return x.token == y.token && x.score == y.score;
  });
}

TEST_F(GpuShortlistsTest, SayWhatAllLogitsSay) {
  rows_[5].assign(kVocabulary, -std::numeric_limits<float>::infinity());
  rows_[5][70] = 1.0f;
  rows_[7].assign(kVocabulary, 0.25f);
  const std::vector<SamplingOptions> tried = {
      {},
      {.temperature = 1, .seed = 5},
      {.temperature = 0.3, .seed = 6, .sample = 2},
      {.temperature = 50, .seed = 7},  // hardly more than noise: the largest logit is in no list
      {.temperature = 0.8, .min_p = 0.2, .seed = 8},
      {.temperature = 0.9, .top_k = 40, .top_p = 0.9, .seed = 9},
      {.temperature = 1.5, .top_k = 128, .min_p = 0.01, .seed = 10}};
  for (const SamplingOptions& options : tried) {
    const Chooser chooser = OrDie(Chooser::Create(options, kVocabulary));
    ChooserScratch scratch(kVocabulary);
    for (const size_t count : {1, 8}) {
      const std::optional<Wish> wish = WishOf(chooser, kVocabulary, count, 3);
      ASSERT_TRUE(wish.has_value());
      const std::vector<Wish> wishes(kRows, *wish);
      const std::span<const Shortlist> lists = Find(wishes);
      ASSERT_EQ(lists.size(), kRows);
      uint32_t told = 0;
      for (uint32_t row = 0; row < kRows; ++row) {
        std::vector<Ranked> by_list, by_all;
        const bool tells =
            OrDie(RankByList(chooser, *wish, lists[row], {history_}, count, scratch, by_list));
        OUTRIDER_CHECK_OK(chooser.Rank(rows_[row], 3, {history_}, count, scratch, by_all));
        if (!tells) continue;
        ++told;
        EXPECT_TRUE(SameRanking(by_list, by_all))
            << "row " << row << ", temperature " << options.temperature << ", " << count;
      }
      EXPECT_GE(told, kRows - 4) << "lists tell nearly always; temperature " << options.temperature
                                 << ", " << count;
    }
  }
}

// Where nobody is far enough ahead of the last in the list, somebody left out might have won.
TEST_F(GpuShortlistsTest, SaySoWhereTheyDoNotTell) {
  const Chooser chooser = OrDie(Chooser::Create({.temperature = 1, .seed = 5}, kVocabulary));
  ChooserScratch scratch(kVocabulary);
  const Wish wish = *WishOf(chooser, kVocabulary, 1, 3);
  const std::vector<Wish> wishes(kRows, wish);
  Shortlist list = Find(wishes).front();
  std::vector<Ranked> ranked;
  ASSERT_TRUE(OrDie(RankByList(chooser, wish, list, {history_}, 1, scratch, ranked)));
  list.last_score = ranked.front().score;
  EXPECT_FALSE(OrDie(RankByList(chooser, wish, list, {history_}, 1, scratch, ranked)));
}

TEST_F(GpuShortlistsTest, AreNoneWhereALogitIsNoNumber) {
  const Chooser chooser = OrDie(Chooser::Create({}, kVocabulary));
  const std::vector<Wish> wishes(kRows, *WishOf(chooser, kVocabulary, 1, 3));
  rows_[9][2999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Find(wishes).empty());
  rows_[9].assign(kVocabulary, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(Find(wishes).empty());
}

TEST(Wishes, ChoosersThatWantEverythingSaySo) {
  const auto wants = [](SamplingOptions options, size_t count, int32_t vocabulary = kVocabulary) {
    return WishOf(OrDie(Chooser::Create(std::move(options), vocabulary)), kVocabulary, count, 0)
        .has_value();
  };
  EXPECT_TRUE(wants({}, 1));
  EXPECT_TRUE(wants({}, 1, kVocabulary + 8));
  EXPECT_FALSE(wants({}, 1, kVocabulary - 8));
  EXPECT_FALSE(wants({}, kShortlistMax + 1));
  EXPECT_FALSE(wants({.repetition_penalty = 1.1}, 1));
  EXPECT_FALSE(wants({.logit_bias = {{5, 1.0f}}}, 1));
  EXPECT_TRUE(wants({.temperature = 1}, 1));
  EXPECT_FALSE(wants({.temperature = 1, .top_p = 0.9}, 1));
  EXPECT_TRUE(wants({.temperature = 1, .top_k = 40, .top_p = 0.9}, 1));
  EXPECT_FALSE(wants({.temperature = 1, .top_k = 500}, 1));
}

}  // namespace
}  // namespace outrider
