#include "adapters/calibration/guess_log.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

void GuessLog::Hear(const ExitGuess& guess) {
  heard_.push_back({.exit = guess.exit,
                    .pass = pass_count_,
                    .matches = false,
                    .matches_at_root = false,
                    .probability = guess.probability,
                    .evidence = guess.evidence,
                    .choice_begin = choices_.size(),
                    .choice_count = guess.ranked.size()});
  outcomes_.push_back(guess.outcome);
  for (const std::span<const Ranked> ranked : guess.ranked) {
    choices_.push_back({ranked_.size(), ranked.size(), false, std::nullopt});
    ranked_.insert(ranked_.end(), ranked.begin(), ranked.end());
  }
}

void GuessLog::Close(const Outcome& verdict, std::span<const TokenId> written) {
  for (size_t i = 0; i < heard_.size(); ++i) Judge(heard_[i], outcomes_[i], verdict, written);
  guesses_.insert(guesses_.end(), heard_.begin(), heard_.end());
  heard_.clear();
  outcomes_.clear();
  ++pass_count_;
}

void GuessLog::Drop() {
  if (!heard_.empty()) {
    ranked_.resize(choices_[heard_[0].choice_begin].ranked_begin);
    choices_.resize(heard_[0].choice_begin);
  }
  heard_.clear();
  outcomes_.clear();
}

// Exit and target stand at the same node for as long as they choose the same.
void GuessLog::Judge(Guess& guess, const Outcome& outcome, const Outcome& verdict,
                     std::span<const TokenId> written) {
  guess.matches = outcome.node == verdict.node && outcome.next == verdict.next;
  bool together = true;
  for (size_t i = 0; i < guess.choice_count && together; ++i) {
    OUTRIDER_CHECK(i < written.size(), "a walk that agrees ends where the target's does");
    LoggedChoice& choice = choices_[guess.choice_begin + i];
    const std::span<const Ranked> ranked =
        std::span(ranked_).subspan(choice.ranked_begin, choice.ranked_count);
    const auto taken = std::ranges::find(ranked, written[i], &Ranked::token);
    choice.on_path = true;
    if (taken != ranked.end()) choice.taken = static_cast<size_t>(taken - ranked.begin());
    together = choice.taken == 0u;
    if (i == 0) guess.matches_at_root = together;
  }
}

GuessLog::Choice GuessLog::ChoiceOf(const Guess& guess, size_t i) const {
  const LoggedChoice& choice = choices_[guess.choice_begin + i];
  return {std::span(ranked_).subspan(choice.ranked_begin, choice.ranked_count), choice.on_path,
          choice.taken};
}

ExitEvidence GuessLog::EvidenceOf(const Guess& guess, float kappa) const {
  ExitEvidence evidence;
  for (size_t i = 0; i < guess.choice_count; ++i) {
    evidence.AddChoice(ChoiceOf(guess, i).ranked, kappa);
  }
  evidence.agrees_with_previous = guess.evidence.agrees_with_previous;
  evidence.agrees_with_first_draft = guess.evidence.agrees_with_first_draft;
  evidence.largest_softmax = guess.evidence.largest_softmax;
  return evidence;
}

}  // namespace outrider
