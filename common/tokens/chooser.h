// The next token: (logits, position, history) -> token.
//
// One implementation for draft, exits and target. What it returns is a function of the logits, the
// options (seed and sample among them), the position and the node's history, and of nothing else:
// not of what was chosen before, of who else is in the batch, or of the machine. That is why
// sampled text is as exact as greedy text: every mode draws the same noise for the same position,
// and a drafted token is accepted when it equals the target's choice, at any temperature.
//
// The order, each step on the result of the one before:
//
//   1. penalties   for each token of the history, z its logit:
//                    z = z > 0 ? z / repetition : z * repetition     prompt and reply
//                    z = z - frequency * count - presence            reply only
//   2. logit bias  z = z + bias
//   3. temperature 0: the largest z, of equal ones the lowest id, and that is all. Otherwise every
//                  token has the weight w = e^((z - largest) / temperature)
//   4. top-k       the k largest z, of equal ones the lower ids
//   5. top-p       the fewest of those, in that order, that hold top_p of their weight
//   6. min-p       of those the ones with w >= min_p
//   7. the race    the least E / w (race.h), E the noise of this position (noise.h)
//
// Steps 3 to 6 are in Hugging Face's order: temperature comes first, so that it decides what the
// truncations see; min-p asks only for w, so its place does not matter to it. (vLLM lets min-p go
// before top-p, which then takes its share of less.) The penalties are those of both, but both add
// the bias before them. Here it comes after, so that it moves a token by what was asked, whatever
// was said before. Equal logits never make a set larger than asked for, as they do there.
//
// Steps 1 and 2 compute in double and round their result to float; the rest is double throughout.
//
// A logit of minus infinity is a token that cannot be. NaN or plus infinity means that something is
// broken, in the weights or the arithmetic: an error that names the token, never a guess.
//
// Cost:    of 128k logits on one core at 2.6 GHz (bench/tokens_bench): greedy 24 us, where a plain
//          maximum takes 20; sampling 0.3 ms of a model's logits, 0.8 ms of pure noise; top-k 40
//          0.2 ms; top-p without top-k 1.5 ms, since it asks for every token's weight. Ranking
//          32 tokens: greedy 0.3 ms, sampling 1.2 ms, since 32 times as many come close.
// Memory:  a Chooser has its options. Working memory is a ChooserScratch, one per thread, taken
//          once: Choose() allocates nothing.
// Threads: a Chooser is constant after Create(); a scratch serves one call at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokens/maximum.h"
#include "common/tokens/race.h"
#include "common/tokens/sampling.h"
#include "common/tokens/token_history.h"
#include "common/tokens/truncation.h"

namespace outrider {

// A token that nearly was chosen, or was. With noise the score is logit / temperature + g, g =
// -log E the Gumbel noise of the race; greedily it is the logit; both relative to something that is
// the same for all tokens of one choice.
struct Ranked {
  TokenId token;
  float score;
};

// 24 bytes a token of the vocabulary.
class ChooserScratch {
 public:
  explicit ChooserScratch(int32_t vocabulary_size);

 private:
  friend class Chooser;

  std::vector<float> logits_;           // after penalties and bias
  std::vector<uint32_t> extra_counts_;  // of the ancestors' tokens; all zero between calls
  std::vector<Candidate> candidates_;
  std::vector<Racer> racers_;
  std::vector<Finisher> finishers_;
};

class Chooser {
 public:
  // InvalidArgument as SamplingOptions::Validate.
  static absl::StatusOr<Chooser> Create(SamplingOptions options, int32_t vocabulary_size);

  // `logits` has one entry for each token; `position` is that of the token to be chosen. With
  // penalties `history` must count its tokens. InvalidArgument when a logit is NaN or plus
  // infinity, or no token is possible.
  absl::StatusOr<TokenId> Choose(std::span<const float> logits, uint32_t position,
                                 const NodeHistory& history, ChooserScratch& scratch) const;

  // The first `count` tokens, in order, in place of what `ranked` held: the largest logits, or who
  // comes first in the race. The first of them is what Choose() returns. Fewer when there are fewer
  // left to choose from. The same errors.
  absl::Status Rank(std::span<const float> logits, uint32_t position, const NodeHistory& history,
                    size_t count, ChooserScratch& scratch, std::vector<Ranked>& ranked) const;

  // Rank() where only some tokens' logits are known: as if all others were minus infinity. `tokens`
  // rise, and `logits` are theirs.
  absl::Status RankAmong(std::span<const TokenId> tokens, std::span<const float> logits,
                         uint32_t position, const NodeHistory& history, size_t count,
                         ChooserScratch& scratch, std::vector<Ranked>& ranked) const;

  const SamplingOptions& options() const { return options_; }
  int32_t vocabulary_size() const { return vocabulary_size_; }

 private:
  Chooser(SamplingOptions options, int32_t vocabulary_size);

  absl::StatusOr<Maximum> CheckedMaximum(std::span<const float> adjusted, uint32_t position) const;
  bool LeavesAll() const;  // after the truncations
  void KeepCandidates(std::span<const float> adjusted, const Maximum& maximum,
                      std::vector<Candidate>& candidates) const;
  std::span<const float> Adjust(std::span<const float> logits, const NodeHistory& history,
                                ChooserScratch& scratch) const;
  std::span<const float> AdjustAmong(std::span<const TokenId> tokens, std::span<const float> logits,
                                     const NodeHistory& history, ChooserScratch& scratch) const;
  void Penalize(const NodeHistory& history, ChooserScratch& scratch) const;
  float Penalized(float logit, uint32_t reply_count) const;

  SamplingOptions options_;
  int32_t vocabulary_size_;
};

}  // namespace outrider
