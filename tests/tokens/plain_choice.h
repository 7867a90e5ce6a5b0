// The definition of chooser.h written down plainly: no filters, no bounds, everything sorted and
// computed in full. What the tests hold the real one against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "common/base/portable_math.h"
#include "common/tokens/noise.h"
#include "common/tokens/sampling.h"

namespace outrider {

inline std::vector<float> PlainlyAdjusted(std::vector<float> logits, const SamplingOptions& options,
                                          std::span<const TokenId> prompt,
                                          std::span<const TokenId> reply) {
  std::map<TokenId, int> counts;  // in the reply
  for (const TokenId token : prompt) counts[token] += 0;
  for (const TokenId token : reply) counts[token] += 1;
  if (options.penalizes()) {
    for (const auto& [token, count] : counts) {
      double z = logits[static_cast<size_t>(token)];
      z = z > 0 ? z / options.repetition_penalty : z * options.repetition_penalty;
      z -= options.frequency_penalty * count;
      if (count > 0) z -= options.presence_penalty;
      logits[static_cast<size_t>(token)] = static_cast<float>(z);
    }
  }
  for (const LogitBias& entry : options.logit_bias) {
    float& logit = logits[static_cast<size_t>(entry.token)];
    logit = static_cast<float>(static_cast<double>(logit) + static_cast<double>(entry.bias));
  }
  return logits;
}

struct PlainCandidate {
  TokenId token;
  float logit;
  double weight;
};

// What the truncations leave, in order.
inline std::vector<PlainCandidate> PlainlyLeft(const std::vector<float>& logits,
                                               const SamplingOptions& options) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<PlainCandidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
    const double distance = static_cast<double>(logits[i]) - static_cast<double>(largest);
    all.push_back(
        {static_cast<TokenId>(i), logits[i], portable::Exp(distance / options.temperature)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.logit > b.logit; });
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < all.size()) {
    all.resize(static_cast<size_t>(options.top_k));
  }
  if (options.top_p < 1) {
    std::map<TokenId, double> by_id;
    for (const PlainCandidate& candidate : all) by_id[candidate.token] = candidate.weight;
    double total = 0;
    for (const auto& [token, weight] : by_id) total += weight;
    double sum = 0;
    size_t kept = 0;
    do {
      sum += all[kept++].weight;
    } while (kept < all.size() && sum < options.top_p * total);
    all.resize(kept);
  }
  std::vector<PlainCandidate> left;
  for (const PlainCandidate& candidate : all) {
    if (candidate.weight >= options.min_p) left.push_back(candidate);
  }
  return left;
}

struct PlainFinisher {
  TokenId token;
  double score;  // the logit, or minus the logarithm of the time
};

// Everything the truncations leave, in the order of the race, or greedily of the logits.
inline std::vector<PlainFinisher> PlainRanking(const std::vector<float>& logits,
                                               SamplingOptions options, uint32_t position) {
  const bool greedy = options.temperature == 0;
  const Noise noise(options.seed, options.sample, position);
  if (greedy) options = {.temperature = 1};
  std::vector<PlainFinisher> finishers;
  for (const PlainCandidate& candidate : PlainlyLeft(logits, options)) {
    const double time = noise.ExponentialOf(candidate.token) / candidate.weight;
    if (candidate.weight == 0 && !greedy) continue;
    finishers.push_back({candidate.token, greedy ? candidate.logit : -time});
  }
  std::sort(finishers.begin(), finishers.end(), [](const auto& a, const auto& b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token);
  });
  for (PlainFinisher& finisher : finishers) {
    if (!greedy) finisher.score = -std::log(-finisher.score);
  }
  return finishers;
}

inline TokenId PlainChoice(const std::vector<float>& logits, const SamplingOptions& options,
                           uint32_t position) {
  if (options.temperature == 0) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  const Noise noise(options.seed, options.sample, position);
  double best = std::numeric_limits<double>::infinity();
  TokenId winner = -1;
  for (const PlainCandidate& candidate : PlainlyLeft(logits, options)) {
    const double time = noise.ExponentialOf(candidate.token) / candidate.weight;
    if (time < best || (time == best && candidate.token < winner)) {
      best = time;
      winner = candidate.token;
    }
  }
  return winner;
}

}  // namespace outrider
