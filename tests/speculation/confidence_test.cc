#include "common/speculation/drafting/confidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr int32_t kVocabulary = 300;

std::optional<size_t> RankOf(const std::vector<Ranked>& ranked, TokenId token) {
  const auto at = std::ranges::find(ranked, token, &Ranked::token);
  if (at == ranked.end()) return std::nullopt;
  return static_cast<size_t>(at - ranked.begin());
}

// --- what Learn() does ---

// The logarithm of the probability of what was chosen, as a function of log kappa.
double LogLikelihood(const std::vector<Ranked>& ranked, size_t chosen, double log_kappa) {
  const double kappa = std::exp(log_kappa);
  double total = 0;
  for (const Ranked& candidate : ranked) total += std::exp(candidate.score / kappa);
  return ranked[chosen].score / kappa - std::log(total);
}

TEST(Confidence, LearnsUpTheSlopeOfTheLikelihood) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 100; ++round) {
    std::vector<Ranked> ranked(2 + random() % 8);
    for (Ranked& candidate : ranked) candidate.score = normal(random);
    std::ranges::sort(ranked, std::greater(), &Ranked::score);
    Confidence confidence;
    const double before = std::log(confidence.kappa());
    const size_t chosen = random() % ranked.size();
    constexpr double kStep = 1e-5;
    const double slope = (LogLikelihood(ranked, chosen, before + kStep) -
                          LogLikelihood(ranked, chosen, before - kStep)) /
                         (2 * kStep);
    confidence.Learn(ranked, chosen);
    const double moved = std::log(confidence.kappa()) - before;
    // The information is 4 to begin with, and one choice has been added.
    EXPECT_GE(moved * slope, 0);
    EXPECT_LE(std::abs(moved), std::abs(slope) / 4 + 1e-6);
    EXPECT_GE(std::abs(moved), std::min(0.299, std::abs(slope) / 8) - 1e-6);
  }
}

TEST(Confidence, WhatIsNoCandidateIsAMissAndTellsNothingAboutKappa) {
  Confidence confidence;
  const std::vector<Ranked> ranked = {{3, 0}, {5, -1}};
  const double kappa = confidence.kappa();
  const double miss = confidence.miss();
  confidence.Learn(ranked, std::nullopt);
  EXPECT_EQ(confidence.kappa(), kappa);
  EXPECT_GT(confidence.miss(), miss);
  std::array<double, 2> probabilities;
  confidence.Of(ranked, probabilities);
  EXPECT_NEAR(probabilities[0] + probabilities[1], 1 - confidence.miss(), 1e-12);
  EXPECT_NEAR(probabilities[0] / probabilities[1], std::exp(1 / kappa), 1e-9);
}

TEST(Confidence, NothingMakesItUseless) {
  const std::vector<Ranked> tied = {{1, 0}, {2, 0}};
  const std::vector<Ranked> apart = {{1, 0}, {2, -INFINITY}};
  const std::vector<Ranked> alone = {{1, 7}};
  for (const std::vector<Ranked>& ranked : {tied, apart, alone}) {
    const std::vector<std::optional<size_t>> choices = {0, ranked.size() - 1, std::nullopt};
    for (const std::optional<size_t> chosen : choices) {
      Confidence confidence;
      for (int i = 0; i < 5000; ++i) confidence.Learn(ranked, chosen);
      std::vector<double> probabilities(ranked.size());
      confidence.Of(ranked, probabilities);
      for (const double p : probabilities) EXPECT_TRUE(p >= 0 && p <= 1) << p;
      EXPECT_TRUE(confidence.kappa() > 0.01 && confidence.kappa() < 10) << confidence.kappa();
    }
  }
}

// --- pairs of distributions ---

// The logits of one context, as a source and as the target has them.
struct Pair {
  std::vector<float> source;
  std::vector<float> target;
};

class Pairs {
 public:
  using Disagreement = std::function<double(std::mt19937&)>;  // of one token's logit

  Pairs(uint32_t seed, Disagreement disagreement)
      : random_(seed), disagreement_(std::move(disagreement)) {}

  // Zipf's law with an exponent between 0.5 and 4, disturbed: contexts from open to settled.
  const Pair& Next() {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const double exponent = 0.5 + 3.5 * uniform(random_);
    const double disturbance = 0.2 + uniform(random_);
    pair_.source.resize(kVocabulary);
    pair_.target.resize(kVocabulary);
    for (size_t i = 0; i < kVocabulary; ++i) {
      const double logit =
          -exponent * std::log(static_cast<double>(i + 1)) + disturbance * normal(random_);
      pair_.source[i] = static_cast<float>(logit);
      pair_.target[i] = static_cast<float>(logit + disagreement_(random_));
    }
    return pair_;
  }

 private:
  std::mt19937 random_;
  Disagreement disagreement_;
  Pair pair_;
};

Pairs::Disagreement Normal(double deviation) {
  return
      [=](std::mt19937& random) { return std::normal_distribution<double>(0, deviation)(random); };
}

Pairs::Disagreement Gumbel(double scale) {
  return [=](std::mt19937& random) {
    return scale * -std::log(std::exponential_distribution<double>()(random));
  };
}

SamplingOptions Sampled(double temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = 5;
  return options;
}

// A source that ranks its logits, and the target that then chooses with the same noise.
class Bench {
 public:
  struct Round {
    const Pair& pair;
    std::span<const Ranked> ranked;
    std::vector<double> probabilities;
    TokenId chosen;
  };

  explicit Bench(const SamplingOptions& options)
      : chooser_(*Chooser::Create(options, kVocabulary)),
        scratch_(kVocabulary),
        history_({.vocabulary_size = kVocabulary, .capacity = 1}) {}

  // Of the next position; learnt from.
  Round Next(Pairs& pairs) {
    const Pair& pair = pairs.Next();
    ++position_;
    EXPECT_TRUE(
        chooser_.Rank(pair.source, position_, {history_}, Confidence::kRankedMax, scratch_, ranked_)
            .ok());
    std::vector<double> probabilities(ranked_.size());
    confidence_.Of(ranked_, probabilities);
    const TokenId chosen = *chooser_.Choose(pair.target, position_, {history_}, scratch_);
    confidence_.Learn(ranked_, RankOf(ranked_, chosen));
    return {pair, ranked_, std::move(probabilities), chosen};
  }

  double kappa() const { return confidence_.kappa(); }

 private:
  const Chooser chooser_;
  ChooserScratch scratch_;
  const TokenHistory history_;
  Confidence confidence_;
  std::vector<Ranked> ranked_;
  uint32_t position_ = 0;
};

std::vector<double> Softmax(const std::vector<float>& logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p(logits.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    total += p[i] = std::exp((logits[i] - largest) / temperature);
  }
  for (double& x : p) x /= total;
  return p;
}

// Predictions and what came of them, by how sure they were.
class Reliability {
 public:
  void Add(double predicted, bool came) {
    Bin& bin = bins_[std::min<size_t>(static_cast<size_t>(predicted * kBins), kBins - 1)];
    bin.predicted += predicted;
    bin.came += came ? 1 : 0;
    bin.count += 1;
    all_ += 1;
  }

  // How far the bins are off, weighted by what is in them.
  double mean_error() const {
    double error = 0;
    for (const Bin& bin : bins_) error += std::abs(bin.predicted - bin.came);
    return error / all_;
  }

  // By how much the worst bin is off beyond what chance explains (three standard errors).
  double largest_error() const {
    double error = 0;
    for (const Bin& bin : bins_) {
      if (bin.count < 50) continue;
      const double p = bin.predicted / bin.count;
      const double chance = 3 * std::sqrt(p * (1 - p) / bin.count);
      error = std::max(error, std::abs(p - bin.came / bin.count) - chance);
    }
    return error;
  }

 private:
  static constexpr size_t kBins = 10;
  struct Bin {
    double predicted = 0;
    double came = 0;
    double count = 0;
  };
  std::array<Bin, kBins> bins_;
  double all_ = 0;
};

struct Measured {
  Reliability ours;
  Reliability softmax;
  double kappa = 0;  // mean
};

// The four best children of each of a few thousand contexts; the first few hundred teach only.
Measured Measure(Pairs pairs, const SamplingOptions& options) {
  constexpr int kTaught = 400;
  constexpr int kMeasured = 3000;
  constexpr size_t kChildren = 4;
  Bench bench(options);
  Measured measured;
  for (int i = 0; i < kTaught; ++i) bench.Next(pairs);
  for (int i = 0; i < kMeasured; ++i) {
    const Bench::Round round = bench.Next(pairs);
    const double temperature = options.greedy() ? 1 : options.temperature;
    const std::vector<double> plain = Softmax(round.pair.source, temperature);
    for (size_t child = 0; child < std::min(kChildren, round.ranked.size()); ++child) {
      const TokenId token = round.ranked[child].token;
      measured.ours.Add(round.probabilities[child], token == round.chosen);
      measured.softmax.Add(plain[static_cast<size_t>(token)], token == round.chosen);
    }
    measured.kappa += bench.kappa() / kMeasured;
  }
  return measured;
}

// Where the model holds, its parameter is found: at temperature T, a disagreement of Gumbel noise
// of scale b between logits is one of scale b / T between scores.
TEST(Confidence, FindsTheScaleOfTheDisagreement) {
  for (const double scale : {0.15, 0.3, 0.6}) {
    for (const double temperature : {0.0, 0.7, 1.0}) {
      const Measured measured = Measure(Pairs(2, Gumbel(scale)), Sampled(temperature));
      const double expected = scale / (temperature == 0 ? 1 : temperature);
      EXPECT_NEAR(measured.kappa, expected, 0.08 * expected)
          << "scale " << scale << ", temperature " << temperature;
    }
  }
}

// The bound: confidence is off by 0.02 in the mean over all proposals, and by 0.03 wherever it
// lies. A plain softmax is off by at least twice as much.
TEST(Confidence, IsCalibratedWhereASoftmaxIsNot) {
  for (const double temperature : {0.0, 0.5, 0.8, 1.2}) {
    for (const double deviation : {0.2, 0.8}) {
      SCOPED_TRACE("temperature " + std::to_string(temperature) + ", deviation " +
                   std::to_string(deviation));
      const Measured measured = Measure(Pairs(3, Normal(deviation)), Sampled(temperature));
      EXPECT_LE(measured.ours.mean_error(), 0.02);
      EXPECT_LE(measured.ours.largest_error(), 0.03);
      EXPECT_GE(measured.softmax.mean_error(), 2 * measured.ours.mean_error());
    }
  }
}

// Truncation takes tokens from both; what is left is judged as before.
TEST(Confidence, IsCalibratedUnderTruncation) {
  std::vector<SamplingOptions> truncations(3, Sampled(0.8));
  truncations[0].top_k = 10;
  truncations[1].top_p = 0.8;
  truncations[2].min_p = 0.1;
  for (const SamplingOptions& options : truncations) {
    const Measured measured = Measure(Pairs(4, Normal(0.4)), options);
    EXPECT_LE(measured.ours.mean_error(), 0.02);
    EXPECT_LE(measured.ours.largest_error(), 0.03);
  }
}

// A token that is improbable, and that its noise has all but chosen.
TEST(Confidence, KnowsWhatTheNoiseHasDecided) {
  Bench bench(Sampled(0.8));
  Pairs pairs(6, Normal(0.4));
  double improbable = 0;
  double predicted = 0;
  double came = 0;
  for (int i = 0; i < 4000; ++i) {
    const Bench::Round round = bench.Next(pairs);
    const TokenId best = round.ranked.front().token;
    if (i < 400 || Softmax(round.pair.source, 0.8)[static_cast<size_t>(best)] > 0.05) continue;
    improbable += 1;
    predicted += round.probabilities.front();
    came += best == round.chosen;
  }
  ASSERT_GT(improbable, 200);
  EXPECT_GT(came / improbable, 0.5);
  EXPECT_NEAR(predicted / improbable, came / improbable, 0.05);
}

// Another target, or another kind of text.
TEST(Confidence, FollowsASuddenChange) {
  Bench bench(Sampled(1));
  Pairs near(7, Gumbel(0.1));
  Pairs far(8, Gumbel(0.8));
  for (int i = 0; i < 1000; ++i) bench.Next(near);
  EXPECT_NEAR(bench.kappa(), 0.1, 0.025);
  for (int i = 0; i < 200; ++i) bench.Next(far);
  EXPECT_NEAR(bench.kappa(), 0.8, 0.25);
  for (int i = 0; i < 500; ++i) bench.Next(near);
  EXPECT_LT(bench.kappa(), 0.2);
}

}  // namespace
}  // namespace outrider
