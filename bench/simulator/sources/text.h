// What a synthetic target would write: after any tokens whatsoever, one token.
//
// The answer hangs on all the tokens before, through their hash (token_history.h): a session that
// loses, repeats or swaps one token anywhere writes a different text from there on, and is found
// out. It is the same answer on the path the target takes and beside it, so drafts of drafts that
// are wrong can be computed too.
//
//   HashedText    some token of a large vocabulary; the cheapest there is
//   SampledText   a row of made-up logits, from which the real Chooser chooses: greedy or sampled,
//                 truncated, penalised
//   (a recorded text is in trace.h)
//
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/simulator/sources/sources.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/chooser.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"

namespace outrider {

class HashedText final : public Text {
 public:
  struct Options {
    uint64_t seed = 0;
    int32_t vocabulary_size = 32000;
    // How often the text ends, per token: with `end_token`.
    double end_rate = 0;
    TokenId end_token = 2;
  };
  explicit HashedText(const Options& options) : options_(options) {}

  int32_t vocabulary_size() const override { return options_.vocabulary_size; }
  TokenId After(const Place& place, const Chooser& chooser) const override;

 private:
  const Options options_;
};

class SampledText final : public Text {
 public:
  struct Options {
    uint64_t seed = 0;
    int32_t vocabulary_size = 96;
    double spread = 2.5;  // standard deviation of the logits
  };
  explicit SampledText(const Options& options);

  int32_t vocabulary_size() const override { return options_.vocabulary_size; }
  TokenId After(const Place& place, const Chooser& chooser) const override;

 private:
  const Options options_;
  mutable ChooserScratch scratch_;
  mutable std::vector<float> logits_;
};

// Appends the reply that the target alone writes to `history`, up to where the stops end it or the
// history is full. Everything else in this folder has to come to the same.
void WriteAlone(const Text& text, const Chooser& chooser, const StopConditions& stops,
                TokenHistory& history);

}  // namespace outrider
