// What choosing a token costs, for logits of 128k tokens as a model gives them (a few likely
// tokens, a long tail) and for the worst case, logits that are noise. `PlainMaximum` is the bound
// for greedy: the same vector loop without the checks and without the token.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/tokens/chooser.h"
#include "common/tokens/maximum.h"

namespace outrider {
namespace {

constexpr int32_t kVocabularySize = 128 * 1024;

// Zipf's law for the probabilities, in random order; or a normal distribution.
std::vector<float> Logits(bool like_a_model) {
  std::mt19937 random(1);
  std::vector<float> logits(kVocabularySize);
  if (like_a_model) {
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = 12 - 2 * std::log(static_cast<float>(i + 1));
    }
    std::shuffle(logits.begin(), logits.end(), random);
  } else {
    std::normal_distribution<float> normal;
    for (float& logit : logits) logit = normal(random);
  }
  return logits;
}

float PlainMaximum(const std::vector<float>& logits) {
  std::array<float, 16> best;
  best.fill(-std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < kVocabularySize; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) {
      best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
    }
  }
  return *std::max_element(best.begin(), best.end());
}

void BM_PlainMaximum(benchmark::State& state) {
  const std::vector<float> logits = Logits(true);
  for (auto _ : state) benchmark::DoNotOptimize(PlainMaximum(logits));
}
BENCHMARK(BM_PlainMaximum)->Unit(benchmark::kMicrosecond);

void Run(benchmark::State& state, bool like_a_model, SamplingOptions options) {
  const std::vector<float> logits = Logits(like_a_model);
  const absl::StatusOr<Chooser> chooser = Chooser::Create(std::move(options), kVocabularySize);
  ChooserScratch scratch(kVocabularySize);
  TokenHistory history({.vocabulary_size = kVocabularySize, .capacity = 1, .counts_tokens = true});
  uint32_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(chooser->Choose(logits, ++position, {history}, scratch));
  }
}

void Both(const char* name, const SamplingOptions& options) {
  for (const bool like_a_model : {true, false}) {
    const std::string full = std::string(name) + (like_a_model ? "/model" : "/noise");
    benchmark::RegisterBenchmark(full.c_str(), Run, like_a_model, options)
        ->Unit(benchmark::kMicrosecond);
  }
}

// The first 32, as a draft wants them.
void RunRank(benchmark::State& state, double temperature, bool like_a_model) {
  const std::vector<float> logits = Logits(like_a_model);
  const auto chooser = Chooser::Create({.temperature = temperature}, kVocabularySize);
  ChooserScratch scratch(kVocabularySize);
  TokenHistory history({.vocabulary_size = kVocabularySize, .capacity = 1});
  std::vector<Ranked> ranked;
  uint32_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        chooser->Rank(logits, ++position, {history}, 32, scratch, ranked).ok());
  }
}
BENCHMARK_CAPTURE(RunRank, greedy / model, 0.0, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(RunRank, race / model, 0.8, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(RunRank, race / noise, 0.8, false)->Unit(benchmark::kMicrosecond);

bool FindsTheMaximum() {
  const std::vector<float> logits = Logits(true);
  const Maximum maximum = FindMaximum(logits);
  const auto first = std::max_element(logits.begin(), logits.end());
  return maximum.sound && maximum.token == first - logits.begin() &&
         maximum.value == PlainMaximum(logits);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  using outrider::Both;
  if (!outrider::FindsTheMaximum()) {
    std::fputs("tokens_bench: the maximum is wrong\n", stderr);
    return EXIT_FAILURE;
  }
  Both("greedy", {});
  Both("race", {.temperature = 0.8});
  Both("race_min_p", {.temperature = 0.8, .min_p = 0.05});
  Both("top_k_40", {.temperature = 0.8, .top_k = 40});
  Both("top_k_40_top_p_0.95", {.temperature = 0.8, .top_k = 40, .top_p = 0.95});
  Both("top_p_0.95", {.temperature = 0.8, .top_p = 0.95});
  Both("penalties", {.temperature = 0.8, .repetition_penalty = 1.1});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
