// Sampling as a race: every token's clock rings after E / w, E the exponential noise of this
// position and w the token's weight, and the first to ring is chosen.
//
// The minimum of exponential clocks falls to each with probability w / sum(w), so this samples the
// softmax. Two models that share the noise mostly agree, because the same E meets similar w: a
// draft guesses a sampled text nearly as well as a greedy one.
//
// Definition: the token with the least E / w, of equal ones the lowest id, among those with
// w >= min_p; a token of weight 0 never rings. Everything in double.
//
// Only a few tokens need a logarithm and an exponential. E >= u, so a token whose u / w already
// exceeds the best time so far has lost; and since u >= 2^-33, for most tokens of a real
// distribution the logit alone tells. Both bounds err on the safe side: the outcome is that of
// the definition, to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tokens/maximum.h"
#include "common/tokens/noise.h"
#include "common/tokens/truncation.h"

namespace outrider {

// Over all tokens; `maximum` is that of the logits, sound and finite.
TokenId RaceOfAll(std::span<const float> logits, const Maximum& maximum, double temperature,
                  double min_p, const Noise& noise);

// Over what a truncation has left; `favourite` is the most probable of them.
TokenId RaceOfCandidates(std::span<const Candidate> candidates, TokenId favourite, double min_p,
                         const Noise& noise);

// --- who comes next ---

// How a token did. Lower times come first, of equal ones the lower id.
struct Finisher {
  TokenId token;
  double time;

  bool operator<(const Finisher& other) const {
    return time < other.time || (time == other.time && token < other.token);
  }
};

// The first `count` of the races above, in order; [0] is their winner. `finishers` is replaced, and
// `seeds`, for RankOfAll, is the `count` most probable tokens, or all there are.
void RankOfAll(std::span<const float> logits, std::span<const Candidate> seeds, float largest,
               double temperature, double min_p, const Noise& noise, size_t count,
               std::vector<Finisher>& finishers);
void RankOfCandidates(std::span<const Candidate> candidates, double min_p, const Noise& noise,
                      size_t count, std::vector<Finisher>& finishers);

// Who may run, and what is known of it cheaply.
struct Racer {
  float time_min;  // no time is less, but for rounding
  uint32_t word;   // of the noise
  uint32_t place;  // among the tokens
};

// RankOfAll where only some tokens have logits. `racers` is working memory.
void RankOfSome(std::span<const TokenId> tokens, std::span<const float> logits, float largest,
                double temperature, double min_p, const Noise& noise, size_t count,
                std::vector<Racer>& racers, std::vector<Finisher>& finishers);

}  // namespace outrider
