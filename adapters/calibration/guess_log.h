// What exits guessed of passes, and what the target said then: what calibration learns from and
// evaluation counts.
//
//   log.Hear(guess);                  // from ExitHeads, in the middle of a pass
//   log.Close(outcome, written);      // the pass is over: its verdict, and the tokens it committed
//
// A guess is kept with all that was ranked on its walk, so that its evidence can be had for any
// kappa.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/model/exits/exit_guess.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"

namespace outrider {

class GuessLog {
 public:
  // A node where an exit has chosen.
  struct Choice {
    std::span<const Ranked> ranked;
    bool on_path;                 // of the target, which has chosen here too,
    std::optional<size_t> taken;  // and which of them; or none of them
  };

  struct Guess {
    uint32_t exit;
    size_t pass;
    bool matches;           // the verdict
    bool matches_at_root;   // its first choice is the target's
    float probability;      // as the exit said
    ExitEvidence evidence;  // for the exit's own kappa
    size_t choice_begin;
    size_t choice_count;
  };

  void Hear(const ExitGuess& guess);
  // `written`: the path down to the verdict's node, and its next token.
  void Close(const Outcome& verdict, std::span<const TokenId> written);
  // The pass came to nothing, and so did what was guessed of it.
  void Drop();

  size_t pass_count() const { return pass_count_; }
  std::span<const Guess> guesses() const { return guesses_; }  // of passes that are over

  Choice ChoiceOf(const Guess& guess, size_t i) const;
  ExitEvidence EvidenceOf(const Guess& guess, float kappa) const;

 private:
  struct LoggedChoice {
    size_t ranked_begin;
    size_t ranked_count;
    bool on_path;
    std::optional<size_t> taken;
  };

  void Judge(Guess& guess, const Outcome& outcome, const Outcome& verdict,
             std::span<const TokenId> written);

  std::vector<Guess> guesses_;
  std::vector<LoggedChoice> choices_;
  std::vector<Ranked> ranked_;
  size_t pass_count_ = 0;

  // Of the pass that runs.
  std::vector<Guess> heard_;
  std::vector<Outcome> outcomes_;  // that they guess
};

}  // namespace outrider
