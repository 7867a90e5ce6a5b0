#include "common/engine/shortlist.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/base/status.h"

namespace outrider {
namespace {

// So many race where one is to be chosen, or this many times as many as are to be ranked: whoever
// is first of all is among them unless noise is very even.
constexpr size_t kRacersLeast = 64;
constexpr size_t kRacersEach = 4;

// More than a score is off by: floats of up to `score`, a division and logarithms of a few ulp.
float RoughnessOf(float score) {
  return 1e-4f * (1.0f + std::fabs(score));
}

// The list, and the token of the largest logit where it is not in it: weights are relative to that.
struct Racers {
  std::array<TokenId, kShortlistMax + 1> tokens;
  std::array<float, kShortlistMax + 1> logits;
  size_t count = 0;

  void Add(TokenId token, float logit) {
    tokens[count] = token;
    logits[count++] = logit;
  }
};

Racers RacersOf(const Shortlist& list) {
  Racers racers;
  const Ranked& largest = list.largest;
  bool is_in = std::ranges::binary_search(list.tokens, largest.token);
  for (size_t i = 0; i < list.tokens.size(); ++i) {
    if (!is_in && largest.token < list.tokens[i]) {
      racers.Add(largest.token, largest.score);
      is_in = true;
    }
    racers.Add(list.tokens[i], list.logits[i]);
  }
  if (!is_in) racers.Add(largest.token, largest.score);
  return racers;
}

}  // namespace

std::optional<Wish> WishOf(const Chooser& chooser, uint32_t vocabulary_size, size_t count,
                           uint32_t index) {
  const SamplingOptions& options = chooser.options();
  if (options.penalizes() || !options.logit_bias.empty()) return std::nullopt;
  if (static_cast<uint32_t>(chooser.vocabulary_size()) < vocabulary_size) return std::nullopt;
  const bool takes_all =
      options.top_k == 0 || static_cast<uint32_t>(options.top_k) >= vocabulary_size;
  const bool races = !options.greedy() && takes_all;
  if (races && options.top_p < 1) return std::nullopt;
  size_t wanted = count;
  if (races) {
    wanted = std::max(kRacersLeast, kRacersEach * count);
  } else if (!options.greedy()) {
    wanted = static_cast<size_t>(options.top_k);
  }
  if (wanted > kShortlistMax) return std::nullopt;
  return Wish{.count = static_cast<uint32_t>(wanted),
              .races = races,
              .temperature = options.temperature,
              .seed = options.seed,
              .sample = options.sample,
              .index = index};
}

absl::StatusOr<bool> RankByList(const Chooser& chooser, const Wish& wish, const Shortlist& list,
                                const NodeHistory& history, size_t count, ChooserScratch& scratch,
                                std::vector<Ranked>& ranked) {
  if (!wish.races) {
    OUTRIDER_RETURN_IF_ERROR(
        chooser.RankAmong(list.tokens, list.logits, wish.index, history, count, scratch, ranked));
    return true;
  }
  const Racers racers = RacersOf(list);
  OUTRIDER_RETURN_IF_ERROR(chooser.RankAmong(std::span(racers.tokens).first(racers.count),
                                             std::span(racers.logits).first(racers.count),
                                             wish.index, history, count, scratch, ranked));
  if (list.last_score == -std::numeric_limits<float>::infinity()) return true;
  return ranked.size() == count &&
         ranked.back().score > list.last_score + RoughnessOf(list.last_score);
}

}  // namespace outrider
