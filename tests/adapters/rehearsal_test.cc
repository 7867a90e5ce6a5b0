// Real passes of a small real model, whose exits nobody has trained: often wrong, and sure of it.
#include "adapters/calibration/rehearsal.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "adapters/calibration/exit_calibration.h"
#include "adapters/calibration/ranking.h"
#include "adapters/generation/continuations.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/model/exits/exit_scorer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

SamplingOptions Sampled() {
  return {.temperature = 0.8, .seed = 3};
}

class RehearsalTest : public testing::Test {
 protected:
  RehearsalTest()
      : target_(OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(Stories())), Stories(),
                                    {.sequence_count_max = 8}, KernelsFor(BestIsa()), *pool_,
                                    nullptr))) {
    TrainedExits exits =
        RandomExits(target_->engine().spec(), target_->engine().info().content_hash, {2, 3}, 4, 0);
    for (TokenId token = 259; token < 400; ++token) exits.frequent_tokens.push_back(token);
    std::ranges::sort(exits.frequent_tokens);
    exits.frequent_tokens.erase(
        std::unique(exits.frequent_tokens.begin(), exits.frequent_tokens.end()),
        exits.frequent_tokens.end());
    OUTRIDER_CHECK_OK(WriteExits(exits, exits_path_));
  }

  std::unique_ptr<Rehearsal> Open() const {
    return OrDie(Rehearsal::Open({Stories(), DamagedStories(), exits_path_}, 1));
  }

  // Different ones, so that greedy replies are: what the target itself begins with.
  std::vector<std::vector<TokenId>> Prompts(size_t count) const {
    ContinuationOptions options;
    options.sampling = {.temperature = 1, .seed = 1};
    options.token_count = 24;
    return OrDie(
        ContinueTexts(*target_, std::vector<std::vector<TokenId>>(count, {1}), options, nullptr));
  }

  ScratchDir dir_;
  const std::string exits_path_ = dir_.File("identity.exits.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
  const std::unique_ptr<EngineTarget> target_;
};

// With a draft that is often wrong and exits that always are: sampled and greedy alike.
TEST_F(RehearsalTest, WritesWhatTheTargetAloneWould) {
  const std::unique_ptr<Rehearsal> rehearsal = Open();
  const std::vector<std::vector<TokenId>> prompts = Prompts(4);
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled()}) {
    ContinuationOptions options;
    options.sampling = sampling;
    options.token_count = 2 * Rehearsal::kReplyTokens;
    const auto alone = OrDie(ContinueTexts(*target_, prompts, options, nullptr));
    for (uint32_t i = 0; i < prompts.size(); ++i) {
      SamplingOptions sample = sampling;
      sample.sample = i;
      GuessLog log;
      std::vector<TokenId> text = prompts[i];
      const std::vector<TokenId> reply = OrDie(rehearsal->Reply(prompts[i], sample, log));
      text.insert(text.end(), reply.begin(), reply.end());
      EXPECT_GE(reply.size(), size_t{Rehearsal::kReplyTokens});
      EXPECT_LT(log.pass_count(), reply.size());  // the draft was good for something
      EXPECT_EQ(log.guesses().size(), 2 * log.pass_count());
      ASSERT_LE(text.size(), alone[i].size());
      EXPECT_EQ(text, std::vector<TokenId>(alone[i].begin(),
                                           alone[i].begin() + static_cast<ptrdiff_t>(text.size())));
    }
  }
  EXPECT_GT(rehearsal->exit_seconds()[0], 0);
  EXPECT_GT(rehearsal->pass_seconds(), rehearsal->exit_seconds()[0] + rehearsal->exit_seconds()[1]);
}

double ErrorOf(const GuessLog& log) {
  std::vector<double> probabilities;
  std::vector<uint8_t> outcomes;
  for (const GuessLog::Guess& guess : log.guesses()) {
    if (guess.exit != 1) continue;
    probabilities.push_back(static_cast<double>(guess.probability));
    outcomes.push_back(guess.matches ? 1 : 0);
  }
  return ExpectedCalibrationError(Reliability(probabilities, outcomes, 5));
}

// On passes that it was not fitted to; the exits that say so are read from the file. About a tenth
// of the guesses are right, so chance puts a bin's share off by sqrt(0.1 * 0.9 / 45), 0.045; the
// fit, of a few hundred guesses, adds some.
TEST_F(RehearsalTest, CalibrationComesTrueElsewhere) {
  const std::vector<std::vector<TokenId>> prompts = Prompts(22);
  const std::span<const std::vector<TokenId>> all = prompts;
  const std::unique_ptr<Rehearsal> plain = Open();
  TrainedExits exits = plain->exits();
  std::vector<double> before;
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled()}) {
    const GuessLog log = OrDie(plain->Replies(all.first(14), sampling, 10000));
    before.push_back(ErrorOf(OrDie(plain->Replies(all.subspan(14), sampling, 10000))));
    (sampling.greedy() ? exits.exits[1].greedy : exits.exits[1].sampled) = FitExit(log, 1);
  }
  OUTRIDER_CHECK_OK(WriteExits(exits, exits_path_));
  const std::unique_ptr<Rehearsal> calibrated = Open();
  const GuessLog greedy = OrDie(calibrated->Replies(all.subspan(14), {}, 10000));
  const GuessLog sampled = OrDie(calibrated->Replies(all.subspan(14), Sampled(), 10000));
  EXPECT_LE(ErrorOf(greedy), 0.07);
  EXPECT_LE(ErrorOf(sampled), 0.07);
  EXPECT_LE(ErrorOf(greedy), before[0] / 1.5);
  EXPECT_LE(ErrorOf(sampled), before[1] / 1.5);
}

TEST_F(RehearsalTest, RefusesWhatDoesNotBelongTogether) {
  const auto refusal = [](const Rehearsal::Files& files) {
    return std::string(Message(Rehearsal::Open(files, 1).status()));
  };
  EXPECT_THAT(refusal({DamagedStories(), Stories(), exits_path_}), HasSubstr(exits_path_));
  std::string bytes = Contents(DamagedStories());
  const size_t word = bytes.find("\xe2\x96\x81Lily");  // a token
  ASSERT_NE(word, std::string::npos);
  bytes[word + 3] = 'B';
  const std::string other = dir_.Write("other.gguf", bytes);
  EXPECT_THAT(refusal({Stories(), other, exits_path_}), HasSubstr(other + ": its tokenizer has"));
  EXPECT_THAT(refusal({Stories(), DamagedStories(), other}), HasSubstr(other));
}

}  // namespace
}  // namespace outrider
